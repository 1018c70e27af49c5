// x is read and written (4 bytes per element in bf16), and ten rounds of philox make four numbers, as in dropout; of
// one layer of a model it is a small part. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "base/random.h"
#include "ops/embedding_noise/draws.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

// Uses a block for each token.
template <typename T>
__global__ void embedding_noise_kernel(const T* x, NoiseDraws draws, T* y, int64_t width) {
  constexpr int kWidth = cuda::kVector<T>;
  static_assert(kWidth % 4 == 0, "a vector takes whole blocks of philox");
  const int64_t row = blockIdx.x;
  const float range = draws.has(row) ? draws.range() : 0;
  const auto seed = static_cast<uint64_t>(*draws.seed), first = draws.first_block(row);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  cuda::for_each_vector<kWidth>(width, thread, threads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> v = cuda::load(x + row * width, span);
#pragma unroll
    for (int i = 0; i < kWidth; i += 4) {
      const auto bits = philox(seed, draws.stream, first + static_cast<uint64_t>(span.begin + i) / 4);
#pragma unroll
      for (int j = 0; j < 4; ++j) v[i + j] += NoiseDraws::noise_of(bits[j], range);
    }
    cuda::store(v, y + row * width, span);
  });
}

}  // namespace

void embedding_noise_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[embedding_noise_op::kX];
  const int64_t width = x.shape[1];
  with_real(x.dtype, [&]<typename T>(T*) {
    const int threads = cuda::threads_for(div_ceil(width, cuda::kVector<T>));
    cuda::launch(embedding_noise_kernel<T>, {x.shape[0], threads}, args.stream, x.as<T>(), NoiseDraws(args),
                 args.outputs[0].as<T>(), width);
  });
}

}  // namespace spillway::ops
