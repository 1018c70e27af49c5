// The kernels are bound by memory. Forward: x is read and y is written (4 bytes per element in bf16); the other taps of
// a token come from the cache, as its neighbours read them, too. Backward: dy is read and dx is written, and for the
// weight's gradient x and dy are read once more. In generation the rows of new tokens' sequences are read and written
// besides. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "ops/causal_conv/causal_conv.h"
#include "ops/causal_conv/operands.h"
#include "ops/column_sums.cuh"
#include "ops/real.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 256;

// The taps of all channels, [C, K], and their biases, or null.
template <typename W>
struct Taps {
  const W *weight, *bias;
  int64_t channels;
  int taps;

  explicit Taps(const KernelArgs& args)
      : weight(args.inputs[causal_conv_op::kWeight].as<W>()),
        bias(args.inputs[causal_conv_op::kBias].as<W>()),
        channels(args.inputs[causal_conv_op::kWeight].shape[0]),
        taps(static_cast<int>(args.inputs[causal_conv_op::kWeight].shape[1])) {}

  // Adds the products of a vector of channels of the token `back` places before.
  template <int N>
  __device__ void add(const cuda::Floats<N>& x, int back, cuda::Span<N> span, cuda::Floats<N>& sum) const {
    const W* const from = weight + span.begin * taps + taps - 1 - back;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < span.count) sum[i] += x[i] * to_float(from[int64_t{i} * taps]);
    }
  }
  template <int N>
  [[nodiscard]] __device__ cuda::Floats<N> first(cuda::Span<N> span) const {
    if (bias != nullptr) return cuda::load(bias, span);
    return {};
  }
};

// A thread's token and vector of channels.
template <int N>
struct Place {
  int64_t token;
  cuda::Span<N> span;
};

// The number of blocks with which all vectors of a token have a thread.
template <int N>
int64_t tiles_of(int64_t channels) {
  return div_ceil(channels, int64_t{kThreads} * N);
}

// Calls f(place) in those threads that have a vector.
template <int N, typename Function>
__device__ void at_place(int64_t channels, const Function& f) {
  const int64_t tiles = (channels + int64_t{kThreads} * N - 1) / (int64_t{kThreads} * N);
  const int64_t begin = (blockIdx.x % tiles * kThreads + threadIdx.x) * N;
  if (begin < channels) f(Place<N>{blockIdx.x / tiles, cuda::span_at<N>(begin, channels)});
}

template <typename T, typename W>
__global__ void __launch_bounds__(kThreads) conv_kernel(const T* x, Taps<W> taps, ConvTokens tokens, T* y) {
  constexpr int kWidth = cuda::kVector<T>;
  at_place<kWidth>(taps.channels, [&](Place<kWidth> place) {
    const int count = tokens.before(place.token);
    cuda::Floats<kWidth> sum = taps.first(place.span);
    for (int j = 0; j < count; ++j)
      taps.add(cuda::load(x + (place.token - j) * taps.channels, place.span), j, place.span, sum);
    cuda::store(sum, y + place.token * taps.channels, place.span);
  });
}

template <typename T, typename W>
__global__ void __launch_bounds__(kThreads) conv_dx_kernel(const T* dy, Taps<W> taps, ConvTokens tokens, T* dx) {
  constexpr int kWidth = cuda::kVector<T>;
  at_place<kWidth>(taps.channels, [&](Place<kWidth> place) {
    const int count = tokens.behind(place.token);
    cuda::Floats<kWidth> sum = {};
    for (int j = 0; j < count; ++j)
      taps.add(cuda::load(dy + (place.token + j) * taps.channels, place.span), j, place.span, sum);
    cuda::store(sum, dx + place.token * taps.channels, place.span);
  });
}

// Sums the gradients of a channel's taps, which go to of_weight [blocks, C, K], and of its bias, which goes to of_bias
// [blocks, C], over a block of tokens, with a thread for each channel.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    conv_sums_kernel(const T* x, const T* dy, int64_t channels, ConvTokens tokens, int64_t block_tokens,
                     float* of_weight, float* of_bias) {
  at_place<1>(channels, [&](Place<1> place) {
    const int64_t channel = place.span.begin, block = place.token;
    float sums[kMaxTaps] = {}, all = 0;
    const int64_t end = (block + 1) * block_tokens < tokens.tokens ? (block + 1) * block_tokens : tokens.tokens;
    for (int64_t token = block * block_tokens; token < end; ++token) {
      const int count = tokens.before(token);
      const float d = to_float(dy[token * channels + channel]);
      all += d;
#pragma unroll
      for (int j = 0; j < kMaxTaps; ++j) {
        if (j < count) sums[j] += d * to_float(x[(token - j) * channels + channel]);
      }
    }
    float* const to = of_weight + (block * channels + channel) * tokens.taps;
#pragma unroll
    for (int j = 0; j < kMaxTaps; ++j) {
      if (j < tokens.taps) to[tokens.taps - 1 - j] = sums[j];
    }
    of_bias[block * channels + channel] = all;
  });
}

// Returns the new tokens' sums; the state is as it was before them.
template <typename T, typename W>
__global__ void __launch_bounds__(kThreads)
    cached_conv_kernel(const T* x, Taps<W> taps, CachedConvTokens tokens, const T* state, T* y) {
  constexpr int kWidth = cuda::kVector<T>;
  at_place<kWidth>(taps.channels, [&](Place<kWidth> place) {
    const int count = tokens.before(place.token);
    cuda::Floats<kWidth> sum = taps.first(place.span);
    for (int j = 0; j < count; ++j) {
      const T* const row = tokens.is_in_stream(place.token, j) ? x + (place.token - j) * taps.channels
                                                               : state + tokens.part(place.token, j) * taps.channels;
      taps.add(cuda::load(row, place.span), j, place.span, sum);
    }
    cuda::store(sum, y + place.token * taps.channels, place.span);
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    keep_tokens_kernel(const T* x, int64_t channels, CachedConvTokens tokens, T* state) {
  constexpr int kWidth = cuda::kVector<T>;
  at_place<kWidth>(channels, [&](Place<kWidth> place) {
    if (!tokens.stays(place.token)) return;
    cuda::store(cuda::load(x + place.token * channels, place.span), state + tokens.part(place.token, 0) * channels,
                place.span);
  });
}

// Calls f with null pointers of the types of tokens and weights.
template <typename Function>
void with_types(const KernelArgs& args, const Function& f) {
  with_real(args.inputs[causal_conv_op::kX].dtype, [&]<typename T>(T* token) {
    with_real(args.inputs[causal_conv_op::kWeight].dtype, [&]<typename W>(W* weight) { f(token, weight); });
  });
}

template <typename T>
cuda::Grid grid_of(const TensorView& x) {
  return {x.shape[0] * tiles_of<cuda::kVector<T>>(x.shape[1]), kThreads};
}

}  // namespace

void causal_conv_cuda(const KernelArgs& args) {
  using namespace causal_conv_op;
  const TensorView& x = args.inputs[kX];
  with_types(args, [&]<typename T, typename W>(T*, W*) {
    const Taps<W> taps(args);
    cuda::launch(conv_kernel<T, W>, grid_of<T>(x), args.stream, x.as<T>(), taps,
                 ConvTokens(args.inputs[kSeqOffsets], x, taps.taps), args.outputs[0].as<T>());
  });
}

void causal_conv_grad_cuda(const KernelArgs& args) {
  using namespace causal_conv_op;
  const TensorView &x = args.inputs[kX], &dy = args.inputs[kDy], &weight = args.inputs[kWeight];
  const int64_t rows = x.shape[0], channels = x.shape[1];
  const int64_t block_rows = rows_of_block(rows), blocks = div_ceil(rows, block_rows);
  const ConvTokens tokens(args.inputs[kSeqOffsets], x, weight.shape[1]);
  auto* const of_weight = reinterpret_cast<float*>(args.workspace);
  float* const of_bias = of_weight + kMaxRowBlocks * weight.elems();
  with_types(args, [&]<typename T, typename W>(T*, W*) {
    cuda::launch(conv_dx_kernel<T, W>, grid_of<T>(x), args.stream, dy.as<T>(), Taps<W>(args), tokens,
                 args.outputs[0].as<T>());
    if (args.outputs.size() == 1) return;
    cuda::launch(conv_sums_kernel<T>, {blocks * tiles_of<1>(channels), kThreads}, args.stream, x.as<T>(), dy.as<T>(),
                 channels, tokens, block_rows, of_weight, of_bias);
  });
  if (args.outputs.size() > 1) add_blocks(of_weight, blocks, args.inputs[kWeightAddend], args.outputs[1], args.stream);
  if (args.outputs.size() > 2) add_blocks(of_bias, blocks, args.inputs[kBiasAddend], args.outputs[2], args.stream);
}

void cached_causal_conv_cuda(const KernelArgs& args) {
  using namespace cached_causal_conv_op;
  const TensorView &x = args.inputs[kX], &state = args.outputs[1];
  cuda::copy_bytes(args.inputs[kState].data, state.data, state.bytes(), args.stream);
  with_types(args, [&]<typename T, typename W>(T*, W*) {
    const CachedConvTokens tokens(args);
    cuda::launch(cached_conv_kernel<T, W>, grid_of<T>(x), args.stream, x.as<T>(), Taps<W>(args), tokens, state.as<T>(),
                 args.outputs[0].as<T>());
    cuda::launch(keep_tokens_kernel<T>, grid_of<T>(x), args.stream, x.as<T>(), x.shape[1], tokens, state.as<T>());
  });
}

}  // namespace spillway::ops
