// The widths of the parts, and the number of groups of columns, as attributes.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "ops/split_columns/split_columns.h"

namespace spillway::ops {

inline constexpr std::array<std::string_view, kMaxColumnParts> kWidthNames = {"width_0", "width_1", "width_2"};

[[nodiscard]] inline std::vector<int64_t> widths_of(const Attributes& attributes) {
  std::vector<int64_t> widths;
  for (const std::string_view name : kWidthNames) {
    if (const int64_t width = attributes.integer_or(name, 0); width > 0) widths.push_back(width);
  }
  return widths;
}

[[nodiscard]] inline int64_t groups_of(const Attributes& attributes) { return attributes.integer_or("groups", 1); }

}  // namespace spillway::ops
