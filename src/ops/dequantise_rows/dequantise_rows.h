// A matrix from 8-bit codes with a scale for each row.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// codes [O, I], i8, times scales [O], f32, in `dtype` (f32 or bf16, rounded once). Not differentiated.
[[nodiscard]] ValueId dequantise_rows(Builder& builder, ValueId codes, ValueId scales, DType dtype);

}  // namespace spillway::ops
