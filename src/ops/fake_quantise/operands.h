// The operands of fake_quantise and its gradient, and their attributes.
#pragma once

#include <cstdint>

#include "graph/attributes.h"
#include "ops/fake_quantise/fake_quantise.h"

namespace spillway::ops::fake_quantise_op {

// fake_quantise has the first three, its gradient x, kEnabled and dy. kAbsmax is f32 [1], the largest magnitude of the
// whole tensor, where the format needs it.
enum Input : int { kX, kEnabled, kAbsmax };
enum GradInput : int { kDy = 2 };

[[nodiscard]] inline FakeFormat format_of(const Attributes& attributes) {
  return static_cast<FakeFormat>(attributes.integer("format"));
}
[[nodiscard]] inline int64_t group_of(const Attributes& attributes, int64_t columns) {
  return fake_group(format_of(attributes), attributes.integer("group"), columns);
}

// The elements of which a thread block finds the largest magnitude.
inline constexpr int64_t kAbsmaxBlock = int64_t{1} << 16;

}  // namespace spillway::ops::fake_quantise_op
