// Draws the next token of each sequence from the probabilities of all tokens, or takes the likeliest; and returns its
// log-probability.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// The inputs of a draw; f32 [T] each except for the first two. Temperatures are given as 1 / temperature.
struct DrawTokenInputs {
  ValueId logits = kNone;  // f32 [T, V]
  ValueId barred = kNone;  // i32 [T, B]: ids that the row's token may not be; those below 0 bar nothing
  // The distribution is softmax(logits * inverse_temperature); infinite: the first of the largest logits, whatever
  // `uniform` is. Below 0: the row is not drawn, and its results are 0.
  ValueId inverse_temperature = kNone;
  // Chooses, from 0 to below 1, the token in whose share it lies, in the order of ids.
  ValueId uniform = kNone;
  // The log-probability is that in softmax(logits * this), of all tokens; if this is 0, it is not computed, and 0.
  ValueId logprob_inverse_temperature = kNone;
};

struct DrawnTokens {
  ValueId ids = kNone;       // i32 [T]
  ValueId logprobs = kNone;  // f32 [T]
};

// Draws the tokens. A logit that is NaN has no share; if all are NaN the token is 0, and its log-probability is NaN, be
// it computed otherwise or not. Has no gradient. A row's results depend only on the row; on a GPU sums have another
// order than on a CPU.
[[nodiscard]] DrawnTokens draw_token(Builder& builder, const DrawTokenInputs& inputs);

}  // namespace spillway::ops
