// What attention does to a row of a tile of scores between two products, vectorised for the CPU at hand.
#pragma once

#include <cstdint>

#include "backend/cpu/matmul_kernels.h"
#include "tensor/dtype.h"

namespace spillway::cpu {

// A row's columns [begin, end) were computed; [visible_begin, visible_end) of them count. end - begin is a multiple of
// kScoreGranule, and all four are within the tile.
constexpr int64_t kScoreGranule = 32;
struct RowSpan {
  int64_t begin, end, visible_begin, visible_end;
};

// The running maximum and sum of a row's exp(scale * score - maximum).
struct SoftmaxState {
  float maximum, sum;
};

// What these functions leave for a product stays in the row: columns [begin, end) of f32, or, as kBF16Pairs, of bf16
// counted from the row's start.

// Turns scores into exp(scale * score - maximum), zero where not visible, and updates the state. Returns the factor for
// what was summed up before.
float softmax_row(float* scores, const RowSpan& span, float scale, PanelFormat format, SoftmaxState& state);

// scores becomes p = exp(scale * score - lse), zero where not visible; d_scores, the gradient of p, becomes that of the
// score: p * (d_p - delta) * scale. In the first, lse and delta belong to the row, in the second to its columns.
void softmax_grad_row(float* scores, float* d_scores, const RowSpan& span, float scale, float lse, float delta,
                      PanelFormat format);
void softmax_grad_columns(float* scores, float* d_scores, const RowSpan& span, float scale, const float* lse,
                          const float* delta, PanelFormat format);

// The sum of a[i] * b[i] over `count` elements, both f32 or both bf16.
float dot_row(const float* a, const float* b, int64_t count);
float dot_row(const bf16* a, const bf16* b, int64_t count);

// values *= factor, for `count` of them.
void scale_row(float* values, int64_t count, float factor);

}  // namespace spillway::cpu
