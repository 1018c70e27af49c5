// A prompt goes through the tiles of backend/cuda/attention_kernels.h. Decoding is bound by memory: the keys and values
// that a token sees are read once for each query head, of which all but the first of a group hit the cache. Not yet
// measured.
#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "base/error.h"
#include "ops/attention/decode_splits.h"
#include "ops/attention/operands.h"
#include "ops/real.h"
#include "ops/real_or.h"

namespace spillway::ops {
namespace {

// A team of lanes takes one key after another, each lane with its share of the head.
constexpr int kTeam = 8;
constexpr int kThreads = 128;
constexpr int kTeams = kThreads / kTeam;

template <typename T>
struct Decode {
  const T *q, *k, *v;
  const int32_t *first, *own;
  T* o;
  float* parts;  // [rows, splits]: maximum and sum, then weighted values f32 [rows, splits, size]
  int heads, kv_heads, size, window;
  float scale, soft_cap;
  int64_t rows;  // tokens * heads

  static constexpr int splits = DecodeSplits::kCount;
  [[nodiscard]] __device__ float* state(int64_t part) const { return parts + 2 * part; }
  [[nodiscard]] __device__ float* values(int64_t part) const { return parts + 2 * rows * splits + part * size; }
};

// exp(maximum - to), where both may be the maximum of nothing.
__device__ float factor_between(float maximum, float to) {
  return maximum == cuda::kNothing ? 0.0f : expf(maximum - to);
}

// A lane's share of a head in vectors: kChunks of them, kTeam vectors apart.
template <int kChunks, int kWidth, typename T>
__device__ void load_share(const T* head, int size, bool wanted, cuda::Floats<kWidth> (&share)[kChunks]) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = (c * kTeam + cuda::lane_index() % kTeam) * kWidth;
    share[c] = {};
    if (wanted && column < size) share[c] = cuda::load(head, cuda::span_at<kWidth>(column, size));
  }
}

// A block for each part of the keys of each row: its state and its values.
template <int kChunks, typename T>
__global__ void __launch_bounds__(kThreads) decode_part_kernel(Decode<T> p) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t row = blockIdx.x / static_cast<unsigned>(p.splits);
  const int token = static_cast<int>(row / p.heads), head = static_cast<int>(row % p.heads);
  const int split = static_cast<int>(blockIdx.x) % p.splits, team = static_cast<int>(threadIdx.x) / kTeam;
  const int end_of_all = p.own[token] + 1;
  const int first_of_all = p.window > 0 ? std::max(p.first[token], end_of_all - p.window) : p.first[token];
  const int length = div_ceil(end_of_all - first_of_all, p.splits);
  const int first = first_of_all + split * length, end = std::min(end_of_all, first + length);
  const int64_t pitch = int64_t{p.kv_heads} * p.size;
  const int64_t kv_offset = int64_t{head / (p.heads / p.kv_heads)} * p.size;

  cuda::Floats<kWidth> query[kChunks], sums[kChunks] = {}, key[kChunks], value[kChunks];
  load_share(p.q + row * p.size, p.size, true, query);
  float maximum = cuda::kNothing, total = 0;
  for (int base = first; base < end; base += kTeams) {
    const bool wanted = base + team < end;
    const int64_t at = (base + team) * pitch + kv_offset;
    load_share(p.k + at, p.size, wanted, key);
    load_share(p.v + at, p.size, wanted, value);
    float score = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) score += query[c][i] * key[c][i];
    }
    score = cuda::warp_reduce<kTeam>(score, cuda::Sum()) * p.scale;
    if (!wanted) continue;
    if (p.soft_cap > 0) score = p.soft_cap * tanhf(score / p.soft_cap);
    const float next = fmaxf(maximum, score), factor = factor_between(maximum, next), weight = expf(score - next);
    maximum = next;
    total = total * factor + weight;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[c][i] = sums[c][i] * factor + weight * value[c][i];
    }
  }

  __shared__ float maxima[kTeams], totals[kTeams];
  auto* of_teams = reinterpret_cast<float*>(cuda::dynamic_shared());  // [kTeams, size]
  if (cuda::lane_index() % kTeam == 0) {
    maxima[team] = maximum;
    totals[team] = total;
  }
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = (c * kTeam + cuda::lane_index() % kTeam) * kWidth;
    if (column < p.size) cuda::store(sums[c], of_teams + team * p.size, cuda::span_at<kWidth>(column, p.size));
  }
  __syncthreads();
  float largest = cuda::kNothing;
  for (int t = 0; t < kTeams; ++t) largest = fmaxf(largest, maxima[t]);
  for (int column = static_cast<int>(threadIdx.x); column < p.size; column += kThreads) {
    float sum = 0;
    for (int t = 0; t < kTeams; ++t) sum += factor_between(maxima[t], largest) * of_teams[t * p.size + column];
    p.values(blockIdx.x)[column] = sum;
  }
  if (threadIdx.x > 0) return;
  float sum = 0;
  for (int t = 0; t < kTeams; ++t) sum += factor_between(maxima[t], largest) * totals[t];
  p.state(blockIdx.x)[0] = largest;
  p.state(blockIdx.x)[1] = sum;
}

// A block for each row puts its parts together, in their order.
template <typename T>
__global__ void __launch_bounds__(kThreads) decode_join_kernel(Decode<T> p) {
  const int64_t row = blockIdx.x, first = row * p.splits;
  float largest = cuda::kNothing, total = 0;
  for (int split = 0; split < p.splits; ++split) largest = fmaxf(largest, p.state(first + split)[0]);
  for (int split = 0; split < p.splits; ++split) {
    const float* state = p.state(first + split);
    total += factor_between(state[0], largest) * state[1];
  }
  for (int column = static_cast<int>(threadIdx.x); column < p.size; column += kThreads) {
    float sum = 0;
    for (int split = 0; split < p.splits; ++split) {
      sum += factor_between(p.state(first + split)[0], largest) * p.values(first + split)[column];
    }
    p.o[row * p.size + column] = cuda::from_float<T>(sum / total);
  }
}

template <typename T>
void decode(const Decode<T>& p, void* stream) {
  const int64_t shared = int64_t{kTeams} * p.size * static_cast<int64_t>(sizeof(float));
  const auto launch_with = [&](auto chunks) {
    cuda::launch(decode_part_kernel<chunks, T>, {p.rows * p.splits, kThreads, shared}, stream, p);
  };
  constexpr int kChunkElems = kTeam * cuda::kVector<T>;
  if (p.size <= 64) {
    launch_with(std::integral_constant<int, 64 / kChunkElems>());
  } else if (p.size <= 128) {
    launch_with(std::integral_constant<int, 128 / kChunkElems>());
  } else {
    static_assert(cuda::kMaxAttentionHead == 256);
    launch_with(std::integral_constant<int, 256 / kChunkElems>());
  }
  cuda::launch(decode_join_kernel<T>, {p.rows, kThreads}, stream, p);
}

}  // namespace

void cached_attention_cuda(const KernelArgs& args) {
  auto attention = attention_operands<cuda::AttentionArgs>(args);
  attention.o = args.outputs[0].data;
  cuda::attention_on_cache(attention, {args.inputs[3].as<int32_t>(), args.inputs[4].as<int32_t>()}, args.stream);
}

void decode_attention_cuda(const KernelArgs& args) {
  const TensorView &q = args.inputs[0], &k = args.inputs[1], &v = args.inputs[2];
  const int64_t heads = args.attributes.integer("heads"), head_size = args.attributes.integer("head_size");
  cuda::expect_head_fits(head_size);
  with_real(q.dtype, [&]<typename T>(T*) {
    decode(Decode<T>{.q = q.as<T>(),
                     .k = k.as<T>(),
                     .v = v.as<T>(),
                     .first = args.inputs[3].as<int32_t>(),
                     .own = args.inputs[4].as<int32_t>(),
                     .o = args.outputs[0].as<T>(),
                     .parts = reinterpret_cast<float*>(args.workspace),
                     .heads = static_cast<int>(heads),
                     .kv_heads = static_cast<int>(args.attributes.integer("kv_heads")),
                     .size = static_cast<int>(head_size),
                     .window = static_cast<int>(args.attributes.integer("sliding_window")),
                     .scale = static_cast<float>(args.attributes.real("scale")),
                     .soft_cap = static_cast<float>(real_or(args.attributes, "soft_cap", 0)),
                     .rows = q.shape[0] * heads},
           args.stream);
  });
}

}  // namespace spillway::ops
