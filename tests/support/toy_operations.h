// Operations that only tests have, in plain loops on one thread, all f32: what the toy family needs beside the
// engine's.
#pragma once

#include "graph/builder.h"

namespace spillway::testing {

// (x - mean) / sqrt(variance + eps) * w + b over rows of [T, C]; w, b [C].
[[nodiscard]] ValueId layer_norm(Builder& builder, ValueId x, ValueId w, ValueId b);
inline constexpr double kLayerNormEps = 1e-5;

// exp(x) over the sum of its row of [T, S].
[[nodiscard]] ValueId softmax_rows(Builder& builder, ValueId x);

// f32 [1]: scale * the sum of (x - target)^2. It ends a loss: its cotangent is taken to be one.
[[nodiscard]] ValueId squared_error(Builder& builder, ValueId x, ValueId target, ValueId scale);

}  // namespace spillway::testing
