// Numbers that all tokens of a sequence share, one for each column, which scale, shift or gate them (AdaLN; Peebles and
// Xie, Scalable Diffusion Models with Transformers, 2022).
#pragma once

#include <string_view>

#include "graph/builder.h"

namespace spillway::ops {

struct Modulation {
  ValueId rows = kNone;         // f32 [C, P * D]: P parts of D columns for each of the first C sequences
  ValueId seq_offsets = kNone;  // i32 [max_sequences + 1], as those of attention; max_sequences is at least C
};

// A token of no sequence among the rows in use is treated as if its numbers were all zero.

// Throws InputError if `rows` has no part `part` for columns of x, or `seq_offsets` has too few sequences for it.
void expect_modulation(std::string_view op, const ValueType& x, const ValueType& rows, const ValueType& seq_offsets,
                       int64_t part);

}  // namespace spillway::ops
