// The next token of each sequence, drawn from the probabilities of all tokens, or the likeliest; and its
// log-probability.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// What tokens are drawn by; f32 [T] each but for the first two. Temperatures are given as 1 / temperature.
struct DrawTokenInputs {
  ValueId logits = kNone;  // f32 [T, V]
  ValueId barred = kNone;  // i32 [T, B]: ids that the row's token may not be; those below 0 bar nothing
  // From softmax(logits * inverse_temperature); infinite: the first of the largest logits, whatever `uniform` is.
  // Below 0: the row is not asked for, and its results are 0.
  ValueId inverse_temperature = kNone;
  // From 0 to below 1: the token in whose share it lies, in the order of ids.
  ValueId uniform = kNone;
  // Of softmax(logits * this), of all tokens, is the log-probability; 0: it is not asked for, and 0.
  ValueId logprob_inverse_temperature = kNone;
};

struct DrawnTokens {
  ValueId ids = kNone;       // i32 [T]
  ValueId logprobs = kNone;  // f32 [T]
};

// A logit that is no number (NaN) has no share, and where all are none the token is 0. Has no gradient. A row's results
// depend on nothing but the row; on a GPU sums have another order than on a CPU.
[[nodiscard]] DrawnTokens draw_token(Builder& builder, const DrawTokenInputs& inputs);

}  // namespace spillway::ops
