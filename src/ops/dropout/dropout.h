// Dropout (Srivastava et al., 2014) whose mask is a pure function of the step's seed, so that it can be recomputed.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Sets each element of x (f32 or bf16) to zero with probability p in [0, 1), else to x / (1 - p). Element i draws
// number i % 4 of philox(seed, stream, i / 4), see base/random.h: seed i64 [1] changes with each micro-batch, a
// negative one leaves x unchanged (evaluation); `stream` tells the dropouts of a graph apart. May take the place of x.
// Where x [T, ...] is a part of a stream, element i counts from the stream's beginning: x begins at its row
// -offsets[0], of i32 offsets of sequences that count from x's own first row. REQUIRES: that row times the elements of
// a row is a multiple of 4.
[[nodiscard]] ValueId dropout(Builder& builder, ValueId x, ValueId seed, double p, int64_t stream,
                              ValueId offsets = kNone);

}  // namespace spillway::ops
