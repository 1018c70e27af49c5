// The end of a model that predicts tensors: the mean squared error of each sequence, weighted.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

struct SequenceErrors {
  ValueId loss = kNone;     // f32 [1]
  ValueId of_each = kNone;  // f32 [C], the mean over each sequence's elements, without its weight
};

//   prediction   [T, P] f32 or bf16
//   target       [T, P] f32 or bf16
//   weights      f32 [C], along any axis or none: of the first C sequences
//   seq_offsets  i32 [max_sequences + 1], as those of attention; max_sequences is at least C
//
// Returns loss = the sum over sequences of weights[s] * mean of (prediction - target)^2 over the elements of s, so that
// the weight alone decides how much a sequence counts, whatever its length. A sequence without tokens has 0.
// Differences and their squares are f32, sums f64 and in an order that depends on the stream alone. The gradient is the
// prediction's, not the target's or the weights'. Of a sequence that begins before the tokens, or ends behind them, as
// where ranks share a stream, those that are there have their share of its mean. Tokens of no sequence among the C get
// 0. The loss may end the graph: then its cotangent is one.
[[nodiscard]] SequenceErrors mean_squared_error(Builder& builder, ValueId prediction, ValueId target, ValueId weights,
                                                ValueId seq_offsets);

}  // namespace spillway::ops
