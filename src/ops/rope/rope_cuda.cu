// Bound by memory: x is read and written (4 bytes per element in bf16). The angles of a token are computed once for all
// of its heads. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/real.h"
#include "ops/rope/rope.h"

namespace spillway::ops {
namespace {

// A block for each token. Angles are f32, rounded as transformers rounds them.
template <typename T>
__global__ void rope_kernel(const T* x, const int32_t* positions, const float* inv_freq, T* out, int heads, int half,
                            int sign, float scaling) {
  constexpr int kWidth = cuda::kVector<T>;
  __shared__ float cosines[kMaxHeadSize / 2], sines[kMaxHeadSize / 2];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const auto position = static_cast<float>(sign * positions[blockIdx.x]);
  for (int i = thread; i < half; i += threads) {
    sincosf(position * inv_freq[i], &sines[i], &cosines[i]);
    sines[i] *= scaling;
    cosines[i] *= scaling;
  }
  __syncthreads();
  const int vectors = div_ceil(half, kWidth);
  for (int i = thread; i < heads * vectors; i += threads) {
    const int head = i / vectors;
    const auto span = cuda::span_at<kWidth>(int64_t{i % vectors} * kWidth, half);
    const int64_t left = (int64_t{blockIdx.x} * heads + head) * 2 * half, right = left + half;
    cuda::Floats<kWidth> a = cuda::load(x + left, span), b = cuda::load(x + right, span);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      if (j >= span.count) break;
      const float c = cosines[span.begin + j], s = sines[span.begin + j];
      const float turned = a[j] * c - b[j] * s;
      b[j] = a[j] * s + b[j] * c;
      a[j] = turned;
    }
    cuda::store(a, out + left, span);
    cuda::store(b, out + right, span);
  }
}

}  // namespace

void rope_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &positions = args.inputs[1], &inv_freq = args.inputs[2];
  const int64_t size = args.attributes.integer("head_size");
  const auto half = static_cast<int>(size / 2), heads = static_cast<int>(x.shape[1] / size);
  const auto sign = static_cast<int>(args.attributes.integer("sign"));
  const auto scaling = static_cast<float>(args.attributes.real("attention_scaling"));
  with_real(x.dtype, [&]<typename T>(T*) {
    const int threads = cuda::threads_for(int64_t{heads} * div_ceil(half, cuda::kVector<T>));
    cuda::launch(rope_kernel<T>, {x.shape[0], threads}, args.stream, x.as<T>(), positions.as<int32_t>(),
                 inv_freq.as<float>(), args.outputs[0].as<T>(), heads, half, sign, scaling);
  });
}

}  // namespace spillway::ops
