// The kernel is bound by memory: it reads k rows for each that it writes. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/combine_rows/operands.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

// The operands for one type; the addend may be null.
template <typename T>
struct Combined {
  const T* rows;
  const int32_t* inverse;
  const T* addend;
  T* out;
  int64_t k, tokens, width;
};

// Uses a block for each token.
template <typename T>
__global__ void combine_rows_kernel(Combined<T> c) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t token = blockIdx.x;
  cuda::for_each_vector<kWidth>(c.width, threadIdx.x, blockDim.x, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> sum = {};
    if (c.addend != nullptr) sum = cuda::load(c.addend + token * c.width, span);
    for (int64_t i = 0; i < c.k; ++i) {
      const int64_t place = c.inverse[token * c.k + i];
      cuda::require(place >= 0 && place < c.tokens * c.k);
      const auto row = cuda::load(c.rows + place * c.width, span);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum[j] += row[j];
    }
    cuda::store(sum, c.out + token * c.width, span);
  });
}

}  // namespace

void combine_rows_cuda(const KernelArgs& args) {
  using namespace combine_rows_op;
  const TensorView &inverse = args.inputs[kInverse], &out = args.outputs[0];
  const int64_t width = out.shape[1];
  with_real(out.dtype, [&]<typename T>(T*) {
    const Combined<T> combined{args.inputs[kRows].as<T>(),
                               inverse.as<int32_t>(),
                               args.inputs[kAddend].as<T>(),
                               out.as<T>(),
                               inverse.shape[1],
                               out.shape[0],
                               width};
    cuda::launch(combine_rows_kernel<T>, {out.shape[0], cuda::threads_for(div_ceil(width, int64_t{cuda::kVector<T>}))},
                 args.stream, combined);
  });
}

}  // namespace spillway::ops
