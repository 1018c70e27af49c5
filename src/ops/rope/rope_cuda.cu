// The kernels are bound by memory: x is read and written (4 bytes per element in bf16). The angles of a token are
// computed once for all of its heads. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "ops/real.h"
#include "ops/rope/turn.h"

namespace spillway::ops {
namespace {

// Turns (a, b) to (a c - b s, b c + a s).
__device__ inline void turn_pair(float& a, float& b, float c, float s) {
  const float turned = a * c - b * s;
  b = a * s + b * c;
  a = turned;
}

template <typename T>
__device__ void turn_halves(const T* x, T* out, int half, int begin, const float* cosines, const float* sines) {
  constexpr int kWidth = cuda::kVector<T>;
  const auto span = cuda::span_at<kWidth>(begin, half);
  cuda::Floats<kWidth> a = cuda::load(x, span), b = cuda::load(x + half, span);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    if (j >= span.count) break;
    turn_pair(a[j], b[j], cosines[begin + j], sines[begin + j]);
  }
  cuda::store(a, out, span);
  cuda::store(b, out + half, span);
}

// Turns neighbours. Vectors begin at even elements: they hold whole pairs.
template <typename T>
__device__ void turn_neighbours(const T* x, T* out, int half, int begin, const float* cosines, const float* sines) {
  constexpr int kWidth = cuda::kVector<T>;
  const auto span = cuda::span_at<kWidth>(begin, 2 * half);
  cuda::Floats<kWidth> v = cuda::load(x, span);
#pragma unroll
  for (int j = 0; j < kWidth; j += 2) {
    if (j >= span.count) break;
    turn_pair(v[j], v[j + 1], cosines[(begin + j) / 2], sines[(begin + j) / 2]);
  }
  cuda::store(v, out, span);
}

// Uses a block for each token. Angles are f32, rounded as transformers rounds them.
template <typename T>
__global__ void rope_kernel(const T* x, Turn turn, T* out, int heads) {
  constexpr int kWidth = cuda::kVector<T>;
  __shared__ float cosines[kMaxHeadSize / 2], sines[kMaxHeadSize / 2];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const float* frequencies = turn.frequencies_of(blockIdx.x);
  const auto position = static_cast<float>(turn.sign * turn.positions[blockIdx.x]);
  const float scaling = turn.scaling_of(blockIdx.x);
  for (int i = thread; i < turn.half; i += threads) {
    sincosf(position * frequencies[i], &sines[i], &cosines[i]);
    sines[i] *= scaling;
    cosines[i] *= scaling;
  }
  __syncthreads();
  const int turning = 2 * turn.half, vectors = div_ceil(turn.is_of_pairs != 0 ? turning : turn.half, kWidth);
  const int64_t row = int64_t{blockIdx.x} * heads * turn.head_size;
  for (int i = thread; i < heads * vectors; i += threads) {
    const int64_t head = row + int64_t{i / vectors} * turn.head_size;
    const int begin = i % vectors * kWidth;
    if (turn.is_of_pairs != 0) {
      turn_neighbours(x + head, out + head, turn.half, begin, cosines, sines);
    } else {
      turn_halves(x + head, out + head, turn.half, begin, cosines, sines);
    }
  }
  const int resting = turn.head_size - turning;
  if (out == x) return;
  for (int i = thread; i < heads * resting; i += threads) {
    const int64_t at = row + int64_t{i / resting} * turn.head_size + turning + i % resting;
    out[at] = x[at];
  }
}

}  // namespace

void rope_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[rope_op::kX];
  const Turn turn(args);
  const auto heads = static_cast<int>(x.shape[1] / turn.head_size);
  with_real(x.dtype, [&]<typename T>(T*) {
    const int threads = cuda::threads_for(int64_t{heads} * div_ceil(turn.half, cuda::kVector<T>));
    cuda::launch(rope_kernel<T>, {x.shape[0], threads}, args.stream, x.as<T>(), turn, args.outputs[0].as<T>(), heads);
  });
}

}  // namespace spillway::ops
