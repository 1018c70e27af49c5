// The kernels are bound by memory and by the rounds in which a warp finds the best of a token's experts. Not yet
// measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/kernel.h"
#include "ops/route/routing.h"

namespace spillway::ops {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * cuda::kWarp;

struct Larger {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a > b ? a : b; }
};

// The numbers of its token that a warp keeps in shared memory.
struct TokenScratch {
  float* scores;   // [E]
  float* choices;  // [E]: scores with the bias, and in a gradient that of the scores
  uint64_t* keys;  // [E]
};
int64_t scratch_bytes(const Routing& routing) { return kWarps * routing.experts * 16; }

__device__ TokenScratch scratch_of_warp(const Routing& routing) {
  std::byte* const own = cuda::dynamic_shared() + cuda::warp_index() * routing.experts * 16;
  auto* const keys = reinterpret_cast<uint64_t*>(own);
  auto* const scores = reinterpret_cast<float*>(keys + routing.experts);
  return {scores, scores + routing.experts, keys};
}

// Calls body(i) for every i in [0, count), of a lane's own.
template <typename Body>
__device__ void for_lane(int64_t count, const Body& body) {
  for (int64_t i = cuda::lane_index(); i < count; i += cuda::kWarp) body(i);
}

template <typename Number>
__device__ float lanes_sum(int64_t count, const Number& number) {
  float sum = 0;
  for_lane(count, [&](int64_t i) { sum += number(i); });
  return cuda::warp_reduce(sum, cuda::Sum());
}

// Writes the softmax of numbers, which may be its input.
__device__ void softmax(const float* x, int64_t count, float* out) {
  float largest = cuda::kNothing;
  for_lane(count, [&](int64_t i) { largest = fmaxf(largest, x[i]); });
  largest = cuda::warp_reduce(largest, cuda::Max());
  for_lane(count, [&](int64_t i) { out[i] = expf(x[i] - largest); });
  const float sum = lanes_sum(count, [&](int64_t i) { return out[i]; });
  for_lane(count, [&](int64_t i) { out[i] /= sum; });
  __syncwarp();
}

__device__ void write_scores(const Routing& routing, const float* logits, float* scores) {
  if (routing.score == RouteScore::kSoftmax) return softmax(logits, routing.experts, scores);
  const bool is_sigmoid = routing.score == RouteScore::kSigmoid;
  for_lane(routing.experts, [&](int64_t e) { scores[e] = is_sigmoid ? 1 / (1 + expf(-logits[e])) : logits[e]; });
  __syncwarp();
}

// Returns the largest of keys in every lane, and takes it out.
__device__ uint64_t take_best(uint64_t* keys, int64_t count) {
  uint64_t best = 0;
  for_lane(count, [&](int64_t i) { best = Larger()(best, keys[i]); });
  best = cuda::warp_reduce(best, Larger());
  for_lane(count, [&](int64_t i) {
    if (keys[i] == best) keys[i] = 0;
  });
  __syncwarp();
  return best;
}

// Returns the score of a group: of its best, or of its two best.
__device__ float group_score(const Routing& routing, const TokenScratch& token, int64_t first, int64_t size) {
  uint64_t best = 0, second = 0;
  for (int64_t e = first; e < first + size; ++e) {
    const uint64_t key = token.keys[e];
    if (key > best) {
      second = best;
      best = key;
    } else if (key > second) {
      second = key;
    }
  }
  float score = token.choices[index_of_key(best)];
  if (routing.best_of_group > 1 && size > 1) score += token.choices[index_of_key(second)];
  return score;
}

// Moves the experts of all but the best groups behind the others. A lane ranks its groups among all: there are few.
__device__ void mask_groups(const Routing& routing, const TokenScratch& token) {
  const int64_t size = routing.experts / routing.groups;
  uint64_t chosen = 0;  // by group, of the lane's own: the first is bit 0
  int64_t own = 0;
  for_lane(routing.groups, [&](int64_t group) {
    const uint64_t key = choice_key(group_score(routing, token, group * size, size), group);
    int64_t better = 0;
    for (int64_t other = 0; other < routing.groups; ++other)
      better += choice_key(group_score(routing, token, other * size, size), other) > key ? 1 : 0;
    if (better < routing.top_groups) chosen |= uint64_t{1} << own;
    ++own;
  });
  __syncwarp();
  own = 0;
  for_lane(routing.groups, [&](int64_t group) {
    const bool is_chosen = (chosen >> own++ & 1) != 0;
    for (int64_t e = group * size; !is_chosen && e < (group + 1) * size; ++e)
      token.keys[e] = key_of_masked(token.keys[e]);
  });
  __syncwarp();
}

// Returns what scores of the chosen are divided by.
template <typename Score>
__device__ float divisor_of(const Routing& routing, const Score& score) {
  return routing.normalises ? lanes_sum(routing.top_k, score) + routing.epsilon : 1;
}

__global__ void __launch_bounds__(kThreads) route_kernel(Routing routing, const float* logits, const float* bias,
                                                         int64_t tokens, float* weights, int32_t* chosen) {
  const int64_t t = int64_t{blockIdx.x} * kWarps + cuda::warp_index();
  if (t >= tokens) return;
  const TokenScratch token = scratch_of_warp(routing);
  weights += t * routing.top_k;
  chosen += t * routing.top_k;
  write_scores(routing, logits + t * routing.experts, token.scores);
  for_lane(routing.experts, [&](int64_t e) {
    token.choices[e] = bias == nullptr ? token.scores[e] : token.scores[e] + bias[e];
    token.keys[e] = choice_key(token.choices[e], e);
  });
  __syncwarp();
  if (routing.top_groups < routing.groups) mask_groups(routing, token);
  for (int64_t i = 0; i < routing.top_k; ++i) {
    const int32_t expert = index_of_key(take_best(token.keys, routing.experts));
    if (cuda::lane_index() != 0) continue;
    chosen[i] = expert;
    weights[i] = token.scores[expert];
  }
  __syncwarp();
  if (routing.score == RouteScore::kSoftmaxOfChosen) softmax(weights, routing.top_k, weights);
  const float divisor = divisor_of(routing, [&](int64_t i) { return weights[i]; });
  for_lane(routing.top_k, [&](int64_t i) { weights[i] = routing.scale * (weights[i] / divisor); });
}

__global__ void __launch_bounds__(kThreads)
    route_grad_kernel(Routing routing, const float* logits, const int32_t* chosen, const float* dweights,
                      int64_t tokens, float* dlogits) {
  const int64_t t = int64_t{blockIdx.x} * kWarps + cuda::warp_index();
  if (t >= tokens) return;
  const TokenScratch token = scratch_of_warp(routing);
  logits += t * routing.experts;
  dlogits += t * routing.experts;
  chosen += t * routing.top_k;
  dweights += t * routing.top_k;
  write_scores(routing, logits, token.scores);
  // The scores of the chosen are behind each other.
  float* const scores = token.choices;
  for_lane(routing.top_k, [&](int64_t i) { scores[i] = token.scores[chosen[i]]; });
  __syncwarp();
  if (routing.score == RouteScore::kSoftmaxOfChosen) softmax(scores, routing.top_k, scores);
  const float divisor = divisor_of(routing, [&](int64_t i) { return scores[i]; });
  const float mean_weight =
      routing.normalises ? lanes_sum(routing.top_k, [&](int64_t i) { return dweights[i] * scores[i] / divisor; }) : 0;
  const auto dscore = [&](int64_t i) { return routing.scale * (dweights[i] - mean_weight) / divisor; };
  const bool is_sigmoid = routing.score == RouteScore::kSigmoid;
  const float mean = is_sigmoid ? 0 : lanes_sum(routing.top_k, [&](int64_t i) { return scores[i] * dscore(i); });
  for_lane(routing.experts,
           [&](int64_t e) { dlogits[e] = routing.score == RouteScore::kSoftmax ? -mean * token.scores[e] : 0; });
  __syncwarp();
  for_lane(routing.top_k,
           [&](int64_t i) { dlogits[chosen[i]] = scores[i] * (is_sigmoid ? 1 - scores[i] : 1) * (dscore(i) - mean); });
}

cuda::Grid grid_for(int64_t tokens, const Routing& routing) {
  return {div_ceil(tokens, int64_t{kWarps}), kThreads, scratch_bytes(routing)};
}

}  // namespace

void route_cuda(const KernelArgs& args) {
  using namespace route_op;
  const TensorView& logits = args.inputs[kLogits];
  const Routing routing = routing_of(args.attributes, logits.shape[1]);
  cuda::launch(route_kernel, grid_for(logits.shape[0], routing), args.stream, routing, logits.as<float>(),
               args.inputs[kBias].as<float>(), logits.shape[0], args.outputs[0].as<float>(),
               args.outputs[1].as<int32_t>());
}

void route_grad_cuda(const KernelArgs& args) {
  using namespace route_op;
  const TensorView& logits = args.inputs[kLogits];
  const Routing routing = routing_of(args.attributes, logits.shape[1]);
  cuda::launch(route_grad_kernel, grid_for(logits.shape[0], routing), args.stream, routing, logits.as<float>(),
               args.inputs[kExperts].as<int32_t>(), args.inputs[kDWeights].as<float>(), logits.shape[0],
               args.outputs[0].as<float>());
}

}  // namespace spillway::ops
