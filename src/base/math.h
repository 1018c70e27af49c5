// Integer helpers. Sizes and indices are int64_t throughout, so that differences are safe.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace spillway {

[[nodiscard]] constexpr int64_t div_ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
[[nodiscard]] constexpr int64_t align_up(int64_t value, int64_t alignment) {
  return div_ceil(value, alignment) * alignment;
}

// Returns a / b if b divides a; anything else is a bug and stops with both numbers.
[[nodiscard]] inline int64_t div_exact(int64_t a, int64_t b) {
  SPILLWAY_CHECK(b != 0 && a % b == 0, "{} is not a multiple of {}", a, b);
  return a / b;
}

// Converts between integer types and stops with the number if it does not fit.
template <typename To, typename From>
[[nodiscard]] To narrow(From value) {
  const To result = static_cast<To>(value);
  SPILLWAY_CHECK(static_cast<From>(result) == value && ((result < To{}) == (value < From{})), "{} does not fit", value);
  return result;
}

}  // namespace spillway
