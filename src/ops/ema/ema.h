// The exponential moving average of a trained weight (Polyak and Juditsky, 1992), as in FastVideo and diffusers.
#pragma once

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

struct EmaOptions {
  double decay = 0.9999;
  int64_t start_step = 0;  // the average equals the weights until after this step, and after the first one
};

// Returns the next version of `average`, f32 of a slice's shape, whose place it may take: the weights if `step`, i32
// [1], is at most max(1, start_step), else decay * average + (1 - decay) * weights, in f32. `weight` is the whole
// weight, f32 or bf16, of which `rows` count, or f32 of the slice alone.
[[nodiscard]] ValueId ema(Builder& builder, ValueId average, ValueId weight, ValueId step, const RowSlice& rows,
                          const EmaOptions& options);

}  // namespace spillway::ops
