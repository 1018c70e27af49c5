// Chooses the experts of each token of a mixture, and their weights.
#pragma once

#include <cstdint>

#include "graph/builder.h"

namespace spillway::ops {

// The scores that logits become.
enum class RouteScore : uint8_t {
  kSoftmax,          // over all experts (Mixtral, Qwen, OLMoE, DeepSeek V2)
  kSigmoid,          // of each expert by itself (DeepSeek V3, GLM-4.5, MiniMax M2)
  kSoftmaxOfChosen,  // the logits themselves choose, and the softmax is over those that are chosen (gpt-oss, Granite)
};

inline constexpr int64_t kMaxExperts = 1024;

struct RouteOptions {
  int64_t top_k = 0;  // experts of a token
  RouteScore score = RouteScore::kSoftmax;
  bool normalises = false;  // weights are divided by their sum
  double epsilon = 0;       // that is added to that sum
  double scale = 1;         // of the weights
  ValueId bias = kNone;     // f32 [E], added to scores where they choose, and not where they weigh; it gets no gradient
  int64_t groups = 1;       // of neighbouring experts; they divide E
  int64_t top_groups = 1;   // in which alone experts are chosen, top_k at least
  int64_t best_of_group = 1;  // experts, the best, whose scores make the score of a group: 1 or 2
};

struct Routes {
  ValueId weights = kNone;  // f32 [T, top_k]
  ValueId experts = kNone;  // i32 [T, top_k], a token's best first; no expert twice
};

// Routes by logits f32 [T, E]. Of equal scores that of the lower expert wins; NaN loses against all numbers. Gradients
// flow through the weights, as if the choice were a constant.
//
// Source: Shazeer et al., 2017; groups and bias: DeepSeek-V2 and V3, 2024.
[[nodiscard]] Routes route(Builder& builder, ValueId logits, const RouteOptions& options);

}  // namespace spillway::ops
