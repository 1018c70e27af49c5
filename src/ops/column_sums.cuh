// The second stage of sums over rows on the GPU; see ops/column_sums.h.
#pragma once

#include "backend/cuda/map.cuh"
#include "ops/column_sums.h"
#include "ops/real.h"

namespace spillway::ops {

template <typename T>
struct AddBlocks {
  static constexpr int kWidth = cuda::kVector<float>;
  const float* partial;  // [blocks, columns]
  int64_t blocks, columns;
  const T* addend;  // null: zero
  T* out;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    cuda::Floats<kWidth> sum = {};
    for (int64_t block = 0; block < blocks; ++block) {
      const cuda::Floats<kWidth> more = cuda::load(partial + block * columns, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += more[i];
    }
    if (addend != nullptr) {
      const cuda::Floats<kWidth> more = cuda::load(addend, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += more[i];
    }
    cuda::store(sum, out, span);
  }
};

// Computes out = addend (if there is one) + partial[0] + partial[1] + ..., in that order.
inline void add_blocks(const float* partial, int64_t blocks, const TensorView& addend, const TensorView& out,
                       void* stream) {
  with_real(out.dtype, [&]<typename T>(T*) {
    cuda::map(out.elems(), AddBlocks<T>{partial, blocks, out.elems(), addend.as<T>(), out.as<T>()}, stream);
  });
}

}  // namespace spillway::ops
