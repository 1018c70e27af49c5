// The end of a language model: the head's product with the hidden states, and the cross-entropy of its rows, fused and
// chunked, so that [tokens, vocabulary] never exists.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// The gradients that are computed along with the loss.
enum class LossGradients : int64_t { kNone, kInput, kInputAndWeight };

struct CrossEntropy {
  ValueId loss = kNone;     // f32 [1]: scale * sum of the losses of the tokens with a label >= 0
  ValueId correct = kNone;  // i32 [1]: the number of these whose label has the largest logit, be it one of several
};

//   x       [T, D] f32 or bf16, per token
//   w       [V, D] of the same dtype
//   labels  i32 [T], per token; -100 (any negative number) is no target, and its row costs nothing
//   scale   f32 [1]: 1 / targets of the step for a mean
//   logit_cap  above 0: a logit l is logit_cap * tanh(l / logit_cap) in all of this, as in Gemma 2
//   label_smoothing  in [0, 1]: the share of the target that all tokens of the vocabulary have together. The loss of a
//       token is (1 - label_smoothing) * -log softmax(x w^T)[label] + label_smoothing * mean of -log softmax(x w^T)
//       (Szegedy et al., Rethinking the Inception Architecture, 2016; transformers' LabelSmoother)
//
// The gradients for a cotangent of one are computed in the same pass, since a second one would have to repeat the
// product: this operation ends a loss, and its vjp returns them (that of w is f32). The idea is that of Liger Kernel's
// fused linear cross entropy (Hsu et al., 2024). Logits, their maximum and sum of exponentials are f32; the gradient of
// the logits has x's dtype.
[[nodiscard]] CrossEntropy linear_cross_entropy(Builder& builder, ValueId x, ValueId w, ValueId labels, ValueId scale,
                                                LossGradients gradients, double logit_cap = 0,
                                                double label_smoothing = 0);

}  // namespace spillway::ops
