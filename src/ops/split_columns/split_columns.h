// Splits a matrix by columns, or each group of its columns: one product for several readers (Phi-3's queries, keys and
// values; the parts of a head in latent attention; the inputs of all layers). And joins what was split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/builder.h"

namespace spillway::ops {

constexpr size_t kMaxColumnParts = 3;  // that differ in width

// Returns x [T, G * D], f32 or bf16, of G groups of D columns, as [T, G * widths[0]], [T, G * widths[1]], ...: the
// columns of each group after each other, of its type, bit for bit. REQUIRES: two widths or more above 0,
// D in all; all alike if they are more than kMaxColumnParts.
[[nodiscard]] std::vector<ValueId> split_columns(Builder& builder, ValueId x, const std::vector<int64_t>& widths,
                                                 int64_t groups = 1);

// Returns the matrix [T, G * D] of which split_columns() makes the parts [T, G * widths[i]]; kNone stands for zeros.
// REQUIRES: one part is there; the widths are those of split_columns().
[[nodiscard]] ValueId join_columns(Builder& builder, const std::vector<ValueId>& parts,
                                   const std::vector<int64_t>& widths, int64_t groups = 1);

}  // namespace spillway::ops
