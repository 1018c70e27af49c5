// Linear layers of experts: each multiplies the rows of its own pairs.
#pragma once

#include <cstdint>
#include <span>

#include "graph/builder.h"

namespace spillway::ops {

struct GroupedLinearOptions {
  int64_t first_expert = 0;    // the expert of the first weight
  ValueId addend = kNone;      // of the result's type; the result may take its place
  bool are_in_by_out = false;  // weights are [I, O], as gpt-oss has them, else [O, I]
};

// Returns rows of pairs [T, k * O] in the dtype of x: of x, f32 or bf16 [T, k * I], sorted by expert (sort_pairs), the
// rows of expert first_expert + i times the transpose of weights[i] [O, I], plus the addend's row where there is one.
// The rows of other experts are the addend's, or zeros. So products with some experts each, of which one is the addend
// of the next, are the product with all, bit for bit. offsets: i32 [E + 1]; they are data, and the host never reads
// them. Sums are f32 and rounded once.
//
// REQUIRES: weights of one type.
[[nodiscard]] ValueId grouped_linear(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token,
                                     std::span<const ValueId> weights, const GroupedLinearOptions& options = {});

}  // namespace spillway::ops
