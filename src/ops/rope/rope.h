// Rotary position embedding (Su et al., RoFormer, 2021), in the half-split layout of transformers' Llama.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

constexpr int64_t kMaxHeadSize = 512;

// Rotates each head of x [T, H * S] (f32 or bf16): element i pairs with i + S / 2, and turns by
// positions[t] * inv_freq[i]. positions i32 [T]; inv_freq f32 [S / 2]; S = head_size is even and at most kMaxHeadSize.
// cos and sin are f32 and multiplied by attention_scaling (YaRN; 1 for others). May take the place of x.
[[nodiscard]] ValueId rope(Builder& builder, ValueId x, ValueId positions, ValueId inv_freq, int64_t head_size,
                           double attention_scaling = 1.0);

}  // namespace spillway::ops
