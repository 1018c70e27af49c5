// Looks up a row of a table for each token.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace spillway::ops {

struct EmbeddingOptions {
  double scale = 1;                      // of each element
  std::optional<int64_t> padding_idx{};  // the row of the table that gets no gradient, as in torch; in [0, V)
};

// Returns [T, D] in the table's dtype: row t is row ids[t] of the table. ids i32 [T], each in [0, V); table [V, D] f32
// or bf16. The gradient of the table adds up the tokens in their order. A scale multiplies each element, in f32,
// rounded once.
[[nodiscard]] ValueId embedding(Builder& builder, ValueId ids, ValueId table, const EmbeddingOptions& options = {});

}  // namespace spillway::ops
