// Rotary position embedding (Su et al., RoFormer, 2021) of heads whose pairs turn by their token's position.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

constexpr int64_t kMaxHeadSize = 512;

// The elements, of the R that turn, that make a pair.
enum class RopeLayout : uint8_t {
  kHalves,  // i and i + R / 2: transformers' Llama
  kPairs,   // 2 i and 2 i + 1: GLM-4, Cohere
};

struct RopeOptions {
  int64_t head_size = 0;  // S: even, at most kMaxHeadSize
  RopeLayout layout = RopeLayout::kHalves;
  double attention_scaling = 1;  // of cos and sin, which are f32 (YaRN)
  // Above 0: cos and sin are multiplied by 1 + growth * ln(1 + floor(position / growth_length)), too (Ministral 3).
  double growth = 0;
  int64_t growth_length = 1;
};

// Angles for sequences of two kinds (LongRoPE): `offsets` i32 [sequences + 1] gives the rows of each sequence, and one
// of more than `max_short` rows turns by the second half of the angles. Rows after the last sequence count as short
// ones.
struct RopeByLength {
  ValueId offsets = kNone;
  int64_t max_short = 0;
};

// Rotates each head of x [T, H * S] (f32 or bf16): pair i of its first R elements turns by positions[t] * inv_freq[i],
// the others stay. positions i32 [T]; inv_freq f32 [R / 2], or [R] by length; R is at most S. May take the place of x.
[[nodiscard]] ValueId rope(Builder& builder, ValueId x, ValueId positions, ValueId inv_freq, const RopeOptions& options,
                           const RopeByLength& by_length = {});

}  // namespace spillway::ops
