// The operands of linear_distillation, the factors of its gradient, and its workspace on both devices.
#pragma once

#include "graph/attributes.h"
#include "ops/logits/cuda_chunks.h"

namespace spillway::ops {

namespace linear_distillation_op {
enum Input : int { kX, kW, kTeacherX, kTeacherW, kLabels, kScale };
// The gradients are those that are wanted: none, of x, or of both.
enum Output : int { kLoss, kDivergence, kCrossEntropy, kCorrect, kDx, kDw };
}  // namespace linear_distillation_op

struct DistillationFactors {
  float inverse_temperature, divergence, cross_entropy;

  explicit DistillationFactors(const Attributes& attributes)
      : inverse_temperature(static_cast<float>(1 / attributes.real("temperature"))),
        divergence(static_cast<float>(attributes.real("divergence_weight"))),
        cross_entropy(static_cast<float>(attributes.real("cross_entropy_weight"))) {}
};

// The workspace of the loop over chunks (LogitWorkspace, CudaLogitWorkspace) for the model, and once more for the
// teacher.
template <typename Chunks>
struct DistillationWorkspace : Chunks {
  int64_t teacher, divergences, cross_entropies, correct;

  template <typename... Threads>
  DistillationWorkspace(const LogitShape& model, const LogitShape& of_teacher, Threads... threads)
      : Chunks(model, threads...),
        teacher(this->take(Chunks(of_teacher, threads...).bytes)),
        divergences(this->take(model.tokens * size_of(DType::kF32))),      // f32 [T]
        cross_entropies(this->take(model.tokens * size_of(DType::kF32))),  // f32 [T]
        correct(this->take(model.tokens * size_of(DType::kI32))) {}        // i32 [T]: 1 if the label is the likeliest
};

}  // namespace spillway::ops
