// The end of a language model for a loss that needs more than a sum: each token's log-probability of its label and the
// entropy of its distribution, with gradients, chunked, so that [tokens, vocabulary] never exists. If the loss is their
// mean, linear_cross_entropy computes the same in one pass less.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

struct LogProb {
  ValueId log_prob = kNone;  // f32 [T], per token: log softmax(x w^T / temperature)[label]
  ValueId entropy = kNone;   // f32 [T], per token: -sum of p log p over the vocabulary

  // For metrics and for weights of losses, without gradients; f32 [T], per token.
  ValueId mean_logit = kNone;      // of x w^T / temperature, over the vocabulary
  ValueId is_likeliest = kNone;    // 1 if the label has the largest logit, be it one of several; else 0
  ValueId log_square_sum = kNone;  // log of the sum of p^2 over the vocabulary
  ValueId top_entropy = kNone;     // of the softmax over the `top` largest logits alone; kNone if top is 0
};

// The largest `top` of linear_log_prob.
inline constexpr int64_t kMaxTopLogits = 256;

//   x       [T, D] f32 or bf16, per token
//   w       [V, D] of the same dtype
//   labels  i32 [T], per token; -100 (any negative number): all outputs are 0, and the row costs nothing on the CPU
//
// The backward pass computes the logits again, from one saved number per token beside the outputs. Logits, their
// maximum and sum of exponentials are f32; the gradient of the logits has x's dtype, that of w is f32. With a logit_cap
// above 0 a logit l is logit_cap * tanh(l / logit_cap) before its temperature, as in Gemma 2. Throws InputError if a
// gradient goes through an output that has none. REQUIRES: temperature is above zero; 0 <= top <= kMaxTopLogits.
[[nodiscard]] LogProb linear_log_prob(Builder& builder, ValueId x, ValueId w, ValueId labels, double temperature = 1,
                                      double logit_cap = 0, int64_t top = 0);

}  // namespace spillway::ops
