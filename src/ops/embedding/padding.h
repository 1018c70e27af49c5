// The row of a table that gets no gradient, as an attribute of the operations.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/attributes.h"

namespace spillway::ops {

inline constexpr std::string_view kPaddingIdx = "padding_idx";
inline constexpr int64_t kNoPadding = -1;

[[nodiscard]] inline int64_t padding_idx(const Attributes& attributes) {
  return attributes.integer_or(kPaddingIdx, kNoPadding);
}

}  // namespace spillway::ops
