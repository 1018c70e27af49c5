// See ops/row_slice.h.
#pragma once

#include "backend/cuda/launch.cuh"
#include "ops/row_slice.h"

namespace spillway::ops {

// Copies the rows outside of the slice from one version of a weight to the next; does nothing if they share memory.
inline void copy_other_rows(const TensorView& from, const TensorView& to, const ElementRange& slice, void* stream) {
  if (from.data == to.data) return;
  const auto copy = [&](int64_t begin, int64_t end) {
    const int64_t size = size_of(to.dtype);
    cuda::copy_bytes(from.as<std::byte>() + begin * size, to.as<std::byte>() + begin * size, (end - begin) * size,
                     stream);
  };
  copy(0, slice.begin);
  copy(slice.end, to.elems());
}

}  // namespace spillway::ops
