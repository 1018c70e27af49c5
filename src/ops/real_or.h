// Attributes that most operations do without.
#pragma once

#include <string_view>

#include "graph/attributes.h"

namespace spillway::ops {

// The real of that name, or where there is none the fallback. An operation that sets an attribute where it matters
// alone is described as before where it does not.
[[nodiscard]] inline double real_or(const Attributes& attributes, std::string_view name, double fallback) {
  for (const auto& [of, number] : attributes.entries()) {
    if (of == name) return std::get<double>(number);
  }
  return fallback;
}

}  // namespace spillway::ops
