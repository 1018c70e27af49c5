// The factors of low-rank adapters of experts (Hu et al., 2021), as PEFT has them: of all experts of a layer in one
// matrix. The sum of a weight and its adapter's product is never formed.
//
// With E experts and rank r, A is [E * r, I], expert by expert; B is [O, r * E], whose column j * E + e is rank j of
// expert e. An expert's update of its weight [O, I] is B_e A_e.
#pragma once

#include <cstdint>
#include <span>

#include "graph/builder.h"

namespace spillway::ops {

// Returns rows of pairs [T, k * r] in the dtype of x: of x, f32 or bf16 [T, k * I], sorted by expert (sort_pairs), each
// row times the transpose of its expert's A_e. offsets: i32 [E + 1]; a: f32 or bf16 [E * r, I]. Sums are f32 and
// rounded once.
[[nodiscard]] ValueId grouped_factor_a(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token,
                                       ValueId a);

// The rows of B that a product takes: those of one of several weights that share the factor.
struct FactorRows {
  int64_t first = 0, count = 0;
};

// Returns rows of pairs [T, k * rows.count]: alpha times each row of x [T, k * r] times the transpose of those rows of
// its expert's B_e; b: [O, r * E].
[[nodiscard]] ValueId grouped_factor_b(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token, ValueId b,
                                       const FactorRows& rows, double alpha);

}  // namespace spillway::ops
