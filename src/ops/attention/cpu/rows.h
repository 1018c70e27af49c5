// The operations of attention on a row of a tile of scores between two products, vectorised for the CPU at hand.
#pragma once

#include <cstdint>

#include "ops/attention/scores.h"
#include "ops/matmul/cpu/kernels.h"
#include "tensor/dtype.h"

namespace spillway::cpu {

// The columns of a row: [begin, end) were computed; [visible_begin, visible_end) of them count. end - begin is a
// multiple of kScoreGranule, and all four are within the tile.
constexpr int64_t kScoreGranule = 32;
struct RowSpan {
  int64_t begin, end, visible_begin, visible_end;
};

using ops::ScoreMap;
using ops::SoftmaxState;

// The following functions leave the operand of the next product in the row: columns [begin, end) of f32, or, as
// kBF16Pairs, of bf16 counted from the row's start.

// Turns products into exp(score - maximum), zero where not visible, and updates the state. Returns the factor for
// earlier sums.
float softmax_row(float* products, const RowSpan& span, const ScoreMap& map, PanelFormat format, SoftmaxState& state);

// Sets products to p = exp(score - lse), zero where not visible; sets d_scores, the gradient of p, to that of the
// product: p * (d_p - delta) times the slope of the score. In the first, lse and delta belong to the row, in the second
// to its columns.
void softmax_grad_row(float* products, float* d_scores, const RowSpan& span, const ScoreMap& map, float lse,
                      float delta, PanelFormat format);
void softmax_grad_columns(float* products, float* d_scores, const RowSpan& span, const ScoreMap& map, const float* lse,
                          const float* delta, PanelFormat format);

// Returns the sum of a[i] * b[i] over `count` elements, both f32 or both bf16.
float dot_row(const float* a, const float* b, int64_t count);
float dot_row(const bf16* a, const bf16* b, int64_t count);

// Computes values *= factor, for `count` of them.
void scale_row(float* values, int64_t count, float factor);

}  // namespace spillway::cpu
