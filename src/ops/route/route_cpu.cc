// The kernels go over a token's experts some dozen times, which stay in the first cache.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/parallel.h"
#include "base/sizes.h"
#include "ops/route/routing.h"
#include "ops/simd.h"

namespace spillway::ops {
namespace {

using Scores = std::array<float, kMaxExperts>;
using Keys = std::array<uint64_t, kMaxExperts>;

// Writes the softmax of numbers.
void softmax(const float* x, int64_t count, float* out) {
  const float largest = *std::max_element(x, x + count);
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += out[i] = std::exp(x[i] - largest);
  for (int64_t i = 0; i < count; ++i) out[i] /= sum;
}

void scores_of(const Routing& routing, const float* logits, float* scores) {
  switch (routing.score) {
    case RouteScore::kSoftmax:
      return softmax(logits, routing.experts, scores);
    case RouteScore::kSigmoid:
      for (int64_t e = 0; e < routing.experts; ++e) scores[e] = 1 / (1 + std::exp(-logits[e]));
      return;
    case RouteScore::kSoftmaxOfChosen:
      return copy_elems(scores, logits, routing.experts);
  }
}

// Returns the index of the largest key, and takes it out.
int32_t take_best(uint64_t* keys, int64_t count) {
  uint64_t* const best = std::max_element(keys, keys + count);
  const int32_t index = index_of_key(*best);
  *best = 0;
  return index;
}

// Moves the experts of all but the best groups behind the others.
void mask_groups(const Routing& routing, const float* choosing, uint64_t* keys) {
  const int64_t size = routing.experts / routing.groups;
  Keys groups;
  for (int64_t g = 0; g < routing.groups; ++g) {
    Keys own;
    std::copy_n(keys + g * size, size, own.begin());
    float score = 0;
    for (int64_t i = 0; i < std::min(size, routing.best_of_group); ++i) score += choosing[take_best(own.data(), size)];
    groups[static_cast<size_t>(g)] = choice_key(score, g);
  }
  std::array<bool, kMaxExperts> is_chosen{};
  for (int64_t i = 0; i < routing.top_groups; ++i)
    is_chosen[static_cast<size_t>(take_best(groups.data(), routing.groups))] = true;
  for (int64_t e = 0; e < routing.experts; ++e)
    if (!is_chosen[static_cast<size_t>(e / size)]) keys[e] = key_of_masked(keys[e]);
}

void choose(const Routing& routing, const float* scores, const float* bias, int32_t* chosen) {
  Scores choosing;
  Keys keys;
  for (int64_t e = 0; e < routing.experts; ++e) {
    const auto i = static_cast<size_t>(e);
    choosing[i] = bias == nullptr ? scores[e] : scores[e] + bias[e];
    keys[i] = choice_key(choosing[i], e);
  }
  if (routing.top_groups < routing.groups) mask_groups(routing, choosing.data(), keys.data());
  for (int64_t i = 0; i < routing.top_k; ++i) chosen[i] = take_best(keys.data(), routing.experts);
}

// Writes the scores of those that are chosen, of which the softmax is taken here if it is over them.
void chosen_scores(const Routing& routing, const float* scores, const int32_t* chosen, float* out) {
  for (int64_t i = 0; i < routing.top_k; ++i) out[i] = scores[chosen[i]];
  if (routing.score == RouteScore::kSoftmaxOfChosen) softmax(out, routing.top_k, out);
}

// Returns what scores are divided by.
float divisor_of(const Routing& routing, const float* scores) {
  if (!routing.normalises) return 1;
  float sum = 0;
  for (int64_t i = 0; i < routing.top_k; ++i) sum += scores[i];
  return sum + routing.epsilon;
}

// Turns the gradients of weights into those of the scores of the chosen.
void gradients_of_scores(const Routing& routing, const float* scores, const float* dweights, float* dscores) {
  const float divisor = divisor_of(routing, scores);
  float mean = 0;
  if (routing.normalises)
    for (int64_t i = 0; i < routing.top_k; ++i) mean += dweights[i] * scores[i] / divisor;
  for (int64_t i = 0; i < routing.top_k; ++i) dscores[i] = routing.scale * (dweights[i] - mean) / divisor;
}

// Adds up what a softmax takes off each gradient.
float mean_gradient(const float* scores, const float* dscores, int64_t count) {
  float mean = 0;
  for (int64_t i = 0; i < count; ++i) mean += scores[i] * dscores[i];
  return mean;
}

void route_grad_row(const Routing& routing, const float* logits, const int32_t* chosen, const float* dweights,
                    float* dlogits) {
  Scores all, scores{}, dscores;
  scores_of(routing, logits, all.data());
  chosen_scores(routing, all.data(), chosen, scores.data());
  gradients_of_scores(routing, scores.data(), dweights, dscores.data());
  const float mean =
      routing.score == RouteScore::kSigmoid ? 0 : mean_gradient(scores.data(), dscores.data(), routing.top_k);
  for (int64_t e = 0; e < routing.experts; ++e)
    dlogits[e] = routing.score == RouteScore::kSoftmax ? -mean * all[static_cast<size_t>(e)] : 0;
  for (size_t i = 0; i < static_cast<size_t>(routing.top_k); ++i) {
    const float slope = routing.score == RouteScore::kSigmoid ? 1 - scores[i] : 1;
    dlogits[chosen[i]] = scores[i] * slope * (dscores[i] - mean);
  }
}

}  // namespace

void route_cpu(const KernelArgs& args) {
  using namespace route_op;
  const TensorView& logits = args.inputs[kLogits];
  const Routing routing = routing_of(args.attributes, logits.shape[1]);
  const float* const bias = args.inputs[kBias].as<float>();
  args.threads->parallel_for(logits.shape[0], row_grain(8 * routing.experts), [&](int64_t begin, int64_t end, int) {
    Scores scores;
    for (int64_t t = begin; t < end; ++t) {
      float* const weights = args.outputs[0].as<float>() + t * routing.top_k;
      int32_t* const chosen = args.outputs[1].as<int32_t>() + t * routing.top_k;
      scores_of(routing, logits.as<float>() + t * routing.experts, scores.data());
      choose(routing, scores.data(), bias, chosen);
      chosen_scores(routing, scores.data(), chosen, weights);
      const float divisor = divisor_of(routing, weights);
      for (int64_t i = 0; i < routing.top_k; ++i) weights[i] = routing.scale * (weights[i] / divisor);
    }
  });
}

void route_grad_cpu(const KernelArgs& args) {
  using namespace route_op;
  const TensorView& logits = args.inputs[kLogits];
  const Routing routing = routing_of(args.attributes, logits.shape[1]);
  args.threads->parallel_for(logits.shape[0], row_grain(8 * routing.experts), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = t * routing.experts, choice = t * routing.top_k;
      route_grad_row(routing, logits.as<float>() + row, args.inputs[kExperts].as<int32_t>() + choice,
                     args.inputs[kDWeights].as<float>() + choice, args.outputs[0].as<float>() + row);
    }
  });
}

}  // namespace spillway::ops
