// A block of threads computes a head of a sequence, chunk by chunk, with its scratch in global memory: of one long
// sequence there are as many blocks as heads. The products use no tensor cores: they are bound by the loads of their
// operands from the caches. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "ops/gated_delta_rule/chunk-inl.h"
#include "ops/gated_delta_rule/operands.h"
#include "ops/gated_delta_rule/scratch.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 128;

// The threads of a block.
struct DeltaBlock {
  template <typename Function>
  __device__ void each(int64_t n, const Function& f) {
    for (int64_t i = threadIdx.x; i < n; i += kThreads) f(i);
    __syncthreads();
  }

  __device__ void product(int64_t m, int64_t n, int64_t p, const DeltaFactor& a, const DeltaPlane& b,
                          const DeltaPlane& c, bool adds) {
    each(m * p, [&](int64_t at) {
      const int64_t i = at / p, column = at % p;
      float sum = adds ? c(i, column) : 0;
      for (int64_t j = 0; j < n; ++j) sum += a(i, j) * b(j, column);
      c(i, column) = sum;
    });
  }

  __device__ void solve(int64_t n, int64_t p, const DeltaPlane& l, const DeltaPlane& w) {
    each(p, [&](int64_t column) {
      for (int64_t t = 1; t < n; ++t) {
        float sum = w(t, column);
        for (int64_t j = 0; j < t; ++j) sum -= l(t, j) * w(j, column);
        w(t, column) = sum;
      }
    });
  }
  __device__ void solve_transposed(int64_t n, int64_t p, const DeltaPlane& l, const DeltaPlane& w) {
    each(p, [&](int64_t column) {
      for (int64_t t = n; t-- > 0;) {
        float sum = w(t, column);
        for (int64_t j = t + 1; j < n; ++j) sum -= l(j, t) * w(j, column);
        w(t, column) = sum;
      }
    });
  }

  template <typename T>
  __device__ static void store(float value, T* to) {
    *to = cuda::from_float<T>(value);
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    delta_kernel(DeltaSizes sizes, DeltaStream<T> stream, DeltaSequences sequences, float* memory, int64_t floats,
                 int64_t blocks, T* y) {
  DeltaBlock team;
  for (int64_t unit = blockIdx.x; unit < sizes.value_heads * sequences.count; unit += blocks)
    delta_forward(team, sizes, stream, sequences, unit / sizes.value_heads, unit % sizes.value_heads,
                  memory + blockIdx.x * floats, y);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    delta_grad_kernel(DeltaSizes sizes, DeltaStream<T> stream, DeltaSequences sequences, float* memory, int64_t floats,
                      int64_t blocks) {
  DeltaBlock team;
  for (int64_t unit = blockIdx.x; unit < sizes.key_heads * sequences.count; unit += blocks)
    DeltaGradient<DeltaBlock, T>(team, sizes, stream, sequences, unit / sizes.key_heads, unit % sizes.key_heads,
                                 memory + blockIdx.x * floats)
        .compute();
}

// The operands of generation.
template <typename T>
struct DeltaTokens {
  const T* qkv;
  const float *decay, *beta;
  const int32_t *slots, *positions;
  int64_t tokens, states;
};

// Returns what a query or a key is multiplied by.
template <typename T>
__device__ float inverse_norm(const T* numbers, int64_t count) {
  float squares = kDeltaEps;
  for (int64_t i = 0; i < count; ++i) squares += to_float(numbers[i]) * to_float(numbers[i]);
  return 1 / sqrtf(squares);
}

// Uses a block for each value head; a thread has columns of its state, which no other one reads.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    delta_steps_kernel(DeltaSizes sizes, DeltaTokens<T> of, float* states, T* y) {
  const int64_t head = blockIdx.x, keys = sizes.key_dim, values = sizes.value_dim, key_head = head / sizes.group();
  const float root = 1 / sqrtf(static_cast<float>(keys));
  for (int64_t t = 0; t < of.tokens; ++t) {
    const T* const row = of.qkv + t * sizes.columns();
    const T *const queries = row + sizes.query_at(key_head), *const key = row + sizes.key_at(key_head);
    const int64_t slot = of.slots[t], gate = t * sizes.value_heads + head;
    cuda::require(slot >= 0 && slot < of.states);
    const float of_query = sizes.corrects ? inverse_norm(queries, keys) * root : 1;
    const float of_key = sizes.corrects ? inverse_norm(key, keys) : 1;
    const float factor = of.positions[t] == 0 ? 0 : expf(of.decay[gate]);
    float* const state = states + (slot * sizes.value_heads + head) * keys * values;
    for (int64_t c = threadIdx.x; c < values; c += kThreads) {
      float predicted = 0, read = 0;
      for (int64_t i = 0; i < keys; ++i) {
        const float decayed = of.positions[t] == 0 ? 0 : state[i * values + c] * factor;
        state[i * values + c] = decayed;
        if (sizes.corrects) predicted += to_float(key[i]) * of_key * decayed;
      }
      const float correction = of.beta[gate] * (to_float(row[sizes.value_at(head) + c]) - predicted);
      for (int64_t i = 0; i < keys; ++i) {
        const float corrected = state[i * values + c] + to_float(key[i]) * of_key * correction;
        state[i * values + c] = corrected;
        read += to_float(queries[i]) * of_query * corrected;
      }
      y[gate * values + c] = cuda::from_float<T>(read);
    }
  }
}

template <typename T>
DeltaStream<T> stream_of(const KernelArgs& args) {
  using namespace gated_delta_rule_op;
  return {.qkv = args.inputs[kQkv].as<T>(),
          .decay = args.inputs[kDecay].as<float>(),
          .beta = args.inputs[kBeta].as<float>()};
}

}  // namespace

void gated_delta_rule_cuda(const KernelArgs& args) {
  using namespace gated_delta_rule_op;
  const TensorView& qkv = args.inputs[kQkv];
  const DeltaSizes sizes(args.attributes);
  const DeltaSequences sequences(args.inputs[kSeqOffsets], qkv.shape[0]);
  const int64_t blocks = delta_blocks(sizes.value_heads, sequences.count);
  with_real(qkv.dtype, [&]<typename T>(T*) {
    cuda::launch(delta_kernel<T>, {blocks, kThreads}, args.stream, sizes, stream_of<T>(args), sequences,
                 reinterpret_cast<float*>(args.workspace), DeltaScratch(sizes, nullptr, false).floats, blocks,
                 args.outputs[0].as<T>());
  });
}

void gated_delta_rule_grad_cuda(const KernelArgs& args) {
  using namespace gated_delta_rule_op;
  const TensorView& qkv = args.inputs[kQkv];
  const DeltaSizes sizes(args.attributes);
  const DeltaSequences sequences(args.inputs[kSeqOffsets], qkv.shape[0]);
  const int64_t blocks = delta_blocks(sizes.key_heads, sequences.count);
  auto* const states = reinterpret_cast<float*>(args.workspace);
  with_real(qkv.dtype, [&]<typename T>(T*) {
    DeltaStream<T> stream = stream_of<T>(args);
    stream.dy = args.inputs[kDy].as<T>();
    stream.dqkv = args.outputs[0].as<T>();
    stream.ddecay = args.outputs[1].as<float>();
    stream.dbeta = args.outputs[2].as<float>();
    stream.states = states;
    cuda::launch(delta_grad_kernel<T>, {blocks, kThreads}, args.stream, sizes, stream, sequences,
                 states + kept_state_floats(sizes, qkv.shape[0]), DeltaScratch(sizes, nullptr, true).floats, blocks);
  });
}

void cached_gated_delta_rule_cuda(const KernelArgs& args) {
  using namespace cached_gated_delta_rule_op;
  const TensorView &qkv = args.inputs[kQkv], &state = args.outputs[1];
  const DeltaSizes sizes(args.attributes);
  cuda::copy_bytes(args.inputs[kState].data, state.data, state.bytes(), args.stream);
  with_real(qkv.dtype, [&]<typename T>(T*) {
    const DeltaTokens<T> tokens{.qkv = qkv.as<T>(),
                                .decay = args.inputs[kDecay].as<float>(),
                                .beta = args.inputs[kBeta].as<float>(),
                                .slots = args.inputs[kSlots].as<int32_t>(),
                                .positions = args.inputs[kPositions].as<int32_t>(),
                                .tokens = qkv.shape[0],
                                .states = state.shape[0]};
    cuda::launch(delta_steps_kernel<T>, {sizes.value_heads, kThreads}, args.stream, sizes, tokens, state.as<float>(),
                 args.outputs[0].as<T>());
  });
}

}  // namespace spillway::ops
