// Splits a matrix by columns: one product for several readers (Phi-3's queries, keys and values).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/builder.h"

namespace spillway::ops {

constexpr size_t kMaxColumnParts = 3;

// Returns x [T, D], f32 or bf16, as [T, widths[0]], [T, widths[1]], ... after each other: of its type, bit for bit.
// REQUIRES: from two widths above 0 to kMaxColumnParts, D in all.
[[nodiscard]] std::vector<ValueId> split_columns(Builder& builder, ValueId x, const std::vector<int64_t>& widths);

}  // namespace spillway::ops
