// The load-balancing loss of mixtures of experts: routers that use all experts alike make it small.
#pragma once

#include "graph/builder.h"
#include "ops/sort_pairs/sort_pairs.h"

namespace spillway::ops {

// Returns how the tokens of a layer were routed, f32 [2, E]: the number of pairs of each expert, and the sum over rows
// of the softmax of `logits`, f32 [T, E]. `pairs` are of the same rows. Where `seq_offsets`, i32 [sequences + 1], are
// given, rows behind the last sequence do not count; offsets may lie outside of the rows. Loads of layers, and of
// ranks, are added up. The order of the sum depends on T alone. Gradients flow through the softmax. E is at most
// route's kMaxExperts.
[[nodiscard]] ValueId router_load(Builder& builder, ValueId logits, const SortedPairs& pairs,
                                  ValueId seq_offsets = kNone);

struct BalanceLoss {
  ValueId weighted = kNone;  // f32 [1]: weight * loss; it ends a graph, as its cotangent is taken to be one
  ValueId loss = kNone;      // f32 [1]; it gets no gradient
};

// Returns E * sum over experts of f * P, where the rows of all layers whose `load`, f32 [2, E], was added up are one
// pool: f is the number of its pairs of an expert, P the sum of its probabilities of the expert, each over the number
// of rows, of which each has `top_k` pairs; 0 where there are no rows. `weight` is f32 [1]. Gradients flow through the
// probabilities alone. Summed in f64.
//
// Source: Fedus et al., Switch Transformers, 2021, equations 4 to 6, as transformers computes it for several experts of
// a token and for all layers together.
[[nodiscard]] BalanceLoss balance_loss(Builder& builder, ValueId load, int64_t top_k, ValueId weight);

// Returns the largest number of pairs that an expert of a layer has over their mean, or `before`, f32 [1], if that is
// larger: f32 [1], 1 where experts are used alike, 0 without pairs. `use` is the offsets of the layer's pairs, or its
// load. `before` may be kNone. It gets no gradient.
[[nodiscard]] ValueId largest_load(Builder& builder, ValueId use, ValueId before);

// Returns how many experts of a layer have at least one pair, plus `before`, i32 [1], which may be kNone: i32 [1]. It
// gets no gradient.
[[nodiscard]] ValueId reached_experts(Builder& builder, ValueId use, ValueId before);

}  // namespace spillway::ops
