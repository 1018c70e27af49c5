// Dropout (Srivastava et al., 2014) whose mask is a pure function of the step's seed, so that it can be recomputed.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Where x [T, ...] is a part of a stream.
struct DropoutPlace {
  ValueId offsets = kNone;  // i32, of sequences, counted from x's own first row: x begins at row -offsets[0]
  int64_t tile = 0;         // and behind so many tiles of as many rows as x has
};

// Sets each element of x (f32 or bf16) to zero with probability p in [0, 1), else to x / (1 - p). Element i draws
// number i % 4 of philox(seed, stream, i / 4), see base/random.h: seed i64 [1] changes with each micro-batch, a
// negative one leaves x unchanged (evaluation); `stream` tells the dropouts of a graph apart. May take the place of x.
// Element i counts from the stream's beginning. REQUIRES: x begins there at a multiple of 4 elements.
[[nodiscard]] ValueId dropout(Builder& builder, ValueId x, ValueId seed, double p, int64_t stream,
                              const DropoutPlace& place = {});

}  // namespace spillway::ops
