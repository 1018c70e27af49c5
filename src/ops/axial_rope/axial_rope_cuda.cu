// The kernels are bound by memory: x is read and written (4 bytes per element in bf16). The angles of a token are
// computed once for all of its heads; of f64 there are two products and a rounding for each pair. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/axial_rope/frequencies.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

// Uses a block for each token.
template <typename T>
__global__ void axial_rope_kernel(const T* x, const int32_t* positions, AxialFrequencies frequencies, T* out,
                                  int64_t width) {
  constexpr int kWidth = cuda::kVector<T>;
  constexpr double kTurn = 6.283185307179586476925;
  __shared__ float cosines[kMaxAxialHeadSize / 2], sines[kMaxAxialHeadSize / 2];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int32_t* position = positions + int64_t{blockIdx.x} * 3;
  for (int i = thread; i < frequencies.pairs; i += threads) {
    const double angle = position[frequencies.axis[i]] * frequencies.angle[i];
    sincosf(static_cast<float>(angle - rint(angle / kTurn) * kTurn), &sines[i], &cosines[i]);
  }
  __syncthreads();
  // Heads are whole pairs, so that a vector that begins at an even element holds whole pairs, maybe of two heads.
  cuda::for_each_vector<kWidth>(width, thread, threads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> v = cuda::load(x + blockIdx.x * width, span);
#pragma unroll
    for (int j = 0; j < kWidth; j += 2) {
      const int pair = static_cast<int>((span.begin + j) / 2 % frequencies.pairs);
      const float a = v[j], b = v[j + 1], c = cosines[pair], s = sines[pair];
      v[j] = a * c - b * s;
      v[j + 1] = b * c + a * s;
    }
    cuda::store(v, out + blockIdx.x * width, span);
  });
}

}  // namespace

void axial_rope_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &positions = args.inputs[1];
  const AxialFrequencies frequencies(args.attributes);
  const int64_t width = x.shape[1];
  with_real(x.dtype, [&]<typename T>(T*) {
    const int threads = cuda::threads_for(div_ceil(width, cuda::kVector<T>));
    cuda::launch(axial_rope_kernel<T>, {x.shape[0], threads}, args.stream, x.as<T>(), positions.as<int32_t>(),
                 frequencies, args.outputs[0].as<T>(), width);
  });
}

}  // namespace spillway::ops
