// The factor for all gradients that limits their common norm.
#pragma once

#include <span>

#include "graph/builder.h"

namespace spillway::ops {

struct ClipFactor {
  ValueId
      factor;    // f32 [1]: min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; 1 where max_norm is 0
  ValueId norm;  // f32 [1]: before clipping
};

// `squared_norms` are f32 [1] each, summed in f64 in their order.
[[nodiscard]] ClipFactor clip_factor(Builder& builder, std::span<const ValueId> squared_norms, double max_norm);

}  // namespace spillway::ops
