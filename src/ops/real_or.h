// Reads attributes that most operations do not have.
#pragma once

#include <string_view>

#include "graph/attributes.h"

namespace spillway::ops {

// Returns the real of that name, or the fallback if there is none. An operation sets such an attribute only if it
// matters, so that the others keep their former descriptions.
[[nodiscard]] inline double real_or(const Attributes& attributes, std::string_view name, double fallback) {
  for (const auto& [of, number] : attributes.entries()) {
    if (of == name) return std::get<double>(number);
  }
  return fallback;
}

}  // namespace spillway::ops
