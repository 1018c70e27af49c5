// The kernels are bound by memory, where it takes the place of the cache: the new rows are read and written (4 bytes
// per element in bf16); else the whole cache is copied first. Not yet measured.
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/cache_append/operands.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace cache_append_op;

template <typename X, typename C>
struct CacheAppend {
  static constexpr int kWidth = cuda::kVector<X, C>;
  const X* x;
  C* cache;
  const int32_t* rows;
  int64_t capacity, width;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const cuda::Floats<kWidth> values = cuda::load(x, span);
#pragma unroll
    for (int i = 0; i < span.count; ++i) {
      const int64_t elem = span.begin + i, row = rows[elem / width];
      cuda::require(row >= 0 && row < capacity);
      cache[row * width + elem % width] = cuda::from_float<C>(values[i]);
    }
  }
};

}  // namespace

void cache_append_cuda(const KernelArgs& args) {
  const TensorView &cache = args.inputs[kCache], &x = args.inputs[kX], &out = args.outputs[0];
  cuda::copy_bytes(cache.data, out.data, out.bytes(), args.stream);
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(out.dtype, [&]<typename C>(C*) {
      const CacheAppend<X, C> body{.x = x.as<X>(),
                                   .cache = out.as<C>(),
                                   .rows = args.inputs[kRows].as<int32_t>(),
                                   .capacity = out.shape[0],
                                   .width = x.shape[1]};
      cuda::map(x.elems(), body, args.stream);
    });
  });
}

}  // namespace spillway::ops
