// Updates weights that are bf16 without an f32 master, by any optimizer: in f32, a slice at a time, and rounded once.
#pragma once

#include <optional>

#include "ops/narrow_rows/narrow_rows.h"
#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Returns the states of such a weight: moments that have a number for each element are bf16, all others unchanged.
[[nodiscard]] StateSchema bf16_states(StateSchema states);

// Appends the update of the operands' rows, which are given and have no master; states are those of bf16_states().
// Moments are rounded to nearest even, the weight by `rounding`. Returns the weight's next version.
ValueId update_bf16(Builder& builder, const OptimizerDef& optimizer, const UpdateOperands& operands,
                    const OptimizerOptions& options, const std::optional<StochasticRounding>& rounding);

}  // namespace spillway::ops
