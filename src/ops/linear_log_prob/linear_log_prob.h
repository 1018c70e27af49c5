// The end of a language model where a loss wants more of it than a sum: each token's log-probability of its label and
// the entropy of its distribution, with gradients, chunked, so that [tokens, vocabulary] never exists. Where the loss
// is their mean, linear_cross_entropy is the same in one pass less.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

struct LogProb {
  ValueId log_prob = kNone;  // f32 [T], per token: log softmax(x w^T / temperature)[label]
  ValueId entropy = kNone;   // f32 [T], per token: -sum of p log p over the vocabulary

  // For metrics and for weights of losses, without gradients; f32 [T], per token.
  ValueId mean_logit = kNone;      // of x w^T / temperature, over the vocabulary
  ValueId is_likeliest = kNone;    // 1 where the label has the largest logit, be it one of several; else 0
  ValueId log_square_sum = kNone;  // log of the sum of p^2 over the vocabulary
};

//   x       [T, D] f32 or bf16, per token
//   w       [V, D] of the same dtype
//   labels  i32 [T], per token; -100 (any negative number): all outputs are 0, and the row costs nothing on the CPU
//
// The backward pass computes the logits again, from one saved number per token beside the outputs. Logits, their
// maximum and sum of exponentials are f32; the gradient of the logits has x's dtype, that of w is f32. With a logit_cap
// above 0 a logit l is logit_cap * tanh(l / logit_cap) before its temperature, as Gemma 2's are. Throws
// InputError where a gradient is to go through an output that has none. REQUIRES: temperature is above zero.
[[nodiscard]] LogProb linear_log_prob(Builder& builder, ValueId x, ValueId w, ValueId labels, double temperature = 1,
                                      double logit_cap = 0);

}  // namespace spillway::ops
