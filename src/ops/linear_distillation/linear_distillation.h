// The end of a language model that learns from a teacher: the divergence of its distributions from the teacher's and
// the cross-entropy of the labels, fused and chunked, so that [tokens, vocabulary] exists of neither model.
#pragma once

#include "graph/builder.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

namespace spillway::ops {

struct DistillationOptions {
  double temperature = 1;  // of both distributions in the divergence; above 0
  double divergence_weight = 1, cross_entropy_weight = 0;
  double logit_cap = 0, teacher_logit_cap = 0;  // as in linear_cross_entropy, before the temperature
};

struct DistillationOperands {
  ValueId x = kNone, w = kNone;                  // [T, D], per token, and [V, D], f32 or bf16
  ValueId teacher_x = kNone, teacher_w = kNone;  // [T, E], per token, and [V, E], of the same dtype
  ValueId labels = kNone;                        // i32 [T], per token; negative: the row costs nothing
  ValueId scale = kNone;                         // f32 [1]
};

// The sums are over the tokens with a label, f32 [1].
struct Distillation {
  ValueId loss = kNone;        // scale * (divergence_weight * divergence + cross_entropy_weight * cross_entropy)
  ValueId divergence = kNone;  // sum of KL(teacher || model) of the distributions softmax(logits / temperature)
  ValueId cross_entropy = kNone;
  ValueId correct = kNone;  // i32 [1], as in linear_cross_entropy
};

// The divergence is the forward KL of Hinton et al., Distilling the Knowledge in a Neural Network (2015), without their
// factor of temperature squared, as in axolotl and in TRL's GKD with beta 0. The teacher has no gradient. Gradients are
// computed along with the loss, as in linear_cross_entropy: this operation ends a loss.
[[nodiscard]] Distillation linear_distillation(Builder& builder, const DistillationOperands& operands,
                                               LossGradients gradients, const DistillationOptions& options);

}  // namespace spillway::ops
