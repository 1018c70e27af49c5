// The scratch memory in which a thread of the CPU, or a block of threads of a GPU, computes chunks of the gated delta
// rule.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/gated_delta_rule/operands.h"

namespace spillway::ops {

// The left side of a product.
struct DeltaFactor {
  const float* at;
  int64_t row, column;  // strides

  SPILLWAY_EITHER_SIDE float operator()(int64_t i, int64_t j) const { return at[i * row + j * column]; }
};

// A matrix in scratch memory.
struct DeltaPlane {
  float* at;
  int64_t stride;  // between rows

  SPILLWAY_EITHER_SIDE float& operator()(int64_t row, int64_t column) const { return at[row * stride + column]; }
  // Return it as the left side of a product.
  [[nodiscard]] SPILLWAY_EITHER_SIDE DeltaFactor plain() const { return {at, stride, 1}; }
  [[nodiscard]] SPILLWAY_EITHER_SIDE DeltaFactor transposed() const { return {at, 1, stride}; }
};

struct DeltaScratch {
  DeltaPlane q, k, k_decayed, k_transposed;            // of a key head: [tokens, key_dim]; [key_dim, tokens]
  DeltaPlane v, w, predicted, read;                    // of a value head: [tokens, value_dim]; S^T k, c S^T q
  DeltaPlane decays, products, correction, attention;  // [tokens, tokens]: D, K K^T, L, A
  DeltaPlane state;                                    // [key_dim, value_dim]
  float *sums, *factors, *to_end, *betas;              // of tokens: G, c, exp(G_last - G), beta
  float *query_scales, *key_scales;                    // of tokens
  // The gradient alone needs these.
  DeltaPlane dy, dw, w_transposed;     // [tokens, value_dim], [value_dim, tokens]
  DeltaPlane dcorrection, dattention;  // [tokens, tokens]
  DeltaPlane dq, dk, dk_decayed;       // [tokens, key_dim]
  DeltaPlane state_transposed;         // [value_dim, key_dim], of S or dS
  float *dsums, *key_sums;             // of tokens
  float* state_sums;                   // of a state's rows
  float* dstates;                      // of the key head's value heads, [key_dim, value_width] each

  int64_t floats = 0;  // all of it

  // Divides `memory`, which may be null where only `floats` is asked for.
  SPILLWAY_EITHER_SIDE DeltaScratch(const DeltaSizes& sizes, float* memory, bool has_gradient) {
    constexpr int64_t kLine = kDeltaChunk;
    const auto take = [&](int64_t rows, int64_t stride) {
      const DeltaPlane plane{memory == nullptr ? nullptr : memory + floats, stride};
      floats += rows * stride;
      return plane;
    };
    const int64_t keys = sizes.key_width(), values = sizes.value_width();
    for (DeltaPlane* plane : {&q, &k, &k_decayed}) *plane = take(kLine, keys);
    k_transposed = take(sizes.key_dim, kLine);
    for (DeltaPlane* plane : {&v, &w, &predicted, &read}) *plane = take(kLine, values);
    for (DeltaPlane* plane : {&decays, &products, &correction, &attention}) *plane = take(kLine, kLine);
    state = take(sizes.key_dim, values);
    for (float** numbers : {&sums, &factors, &to_end, &betas, &query_scales, &key_scales}) *numbers = take(1, kLine).at;
    if (!has_gradient) return;
    for (DeltaPlane* plane : {&dy, &dw}) *plane = take(kLine, values);
    w_transposed = take(sizes.value_dim, kLine);
    for (DeltaPlane* plane : {&dcorrection, &dattention}) *plane = take(kLine, kLine);
    for (DeltaPlane* plane : {&dq, &dk, &dk_decayed}) *plane = take(kLine, keys);
    state_transposed = take(sizes.value_dim, keys);
    for (float** numbers : {&dsums, &key_sums}) *numbers = take(1, kLine).at;
    state_sums = take(1, keys).at;
    dstates = take(sizes.group(), sizes.state_floats()).at;
  }
};

// Returns the bytes of the scratch of some teams; for the gradient behind that of the states that it keeps.
[[nodiscard]] inline int64_t delta_workspace_bytes(const DeltaSizes& sizes, int64_t tokens, int64_t teams,
                                                   bool has_gradient) {
  const int64_t kept = has_gradient ? kept_state_floats(sizes, tokens) : 0;
  return (kept + teams * DeltaScratch(sizes, nullptr, has_gradient).floats) * static_cast<int64_t>(sizeof(float));
}

// Returns how many blocks of a GPU compute heads of so many sequences, which they take in turn.
[[nodiscard]] inline int64_t delta_blocks(int64_t heads, int64_t sequences) {
  constexpr int64_t kMaxBlocks = 264;  // two for each multiprocessor of a large GPU
  return std::min(kMaxBlocks, heads * sequences);
}

// Returns the floats in which a thread computes a head's token by token: its query, its key and its correction.
[[nodiscard]] inline int64_t recurrence_floats(const DeltaSizes& sizes) {
  return 2 * sizes.key_width() + 2 * sizes.value_width();
}

}  // namespace spillway::ops
