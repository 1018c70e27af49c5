// Conversion is bound by memory: 6 bytes per element, in either direction. Not yet measured.
#include "backend/cuda/convert.h"

#include "backend/cuda/map.cuh"

namespace spillway::cuda {
namespace {

template <typename From, typename To>
struct Convert {
  static constexpr int kWidth = kVector<From, To>;
  const From* from;
  To* to;

  __device__ void operator()(Span<kWidth> span) const { store(load(from, span), to, span); }
};

}  // namespace

void convert(void* to, DType to_type, const void* from, DType from_type, int64_t elems, void* stream) {
  if (to_type == from_type) return copy_bytes(from, to, elems * size_of(to_type), stream);
  if (to_type == DType::kF32) {
    map(elems, Convert<bf16, float>{static_cast<const bf16*>(from), static_cast<float*>(to)}, stream);
  } else {
    map(elems, Convert<float, bf16>{static_cast<const float*>(from), static_cast<bf16*>(to)}, stream);
  }
}

}  // namespace spillway::cuda
