// Rounds a value to what a format of few bits can hold, and lets gradients pass as if it had not. Scales and gradients
// are those of torchao's fake quantisers, too (tensor/fake_quantisation.h).
#pragma once

#include <cstdint>

#include "graph/builder.h"
#include "tensor/fake_quantisation.h"

namespace spillway::ops {

struct FakeQuantiseOptions {
  FakeFormat format = FakeFormat::kInt4;
  int64_t group = 32;  // of a format with groups: a multiple of 16
  // i64 [1]: where it is 0 the result is x. kNone: it never is.
  ValueId enabled = kNone;
};

// Returns x [..., columns], f32 or bf16, rounded to the format, in x's type. Gradients pass where x is in the range of
// the format; where torchao differentiates a group's scale, its extreme elements get that part, too. Throws InputError
// where the columns are no whole groups.
[[nodiscard]] ValueId fake_quantise(Builder& builder, ValueId x, const FakeQuantiseOptions& options);

// Returns how many neighbours in a row of `columns` share a scale.
[[nodiscard]] int64_t fake_group(FakeFormat format, int64_t group, int64_t columns);

}  // namespace spillway::ops
