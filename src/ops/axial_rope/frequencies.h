// The frequencies of pairs of elements: the same numbers for both kinds of kernels, computed when one is started.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "backend/kernel.h"
#include "ops/axial_rope/axial_rope.h"

namespace spillway::ops {

constexpr std::string_view kAxisSizeNames[] = {"time", "height", "width"};

// For each pair of a head: its axis and its angle for position 1.
struct AxialFrequencies {
  int32_t pairs = 0;
  uint8_t axis[kMaxAxialHeadSize / 2] = {};
  double angle[kMaxAxialHeadSize / 2] = {};

  explicit AxialFrequencies(const Attributes& attributes) {
    const double theta = attributes.real("theta");
    const auto sign = static_cast<double>(attributes.integer("sign"));
    for (uint8_t which = 0; which < 3; ++which) {
      const int64_t size = attributes.integer(kAxisSizeNames[which]);
      for (int64_t i = 0; i < size; i += 2, ++pairs) {
        axis[pairs] = which;
        angle[pairs] = sign * std::pow(theta, -static_cast<double>(i) / static_cast<double>(size));
      }
    }
  }
};

}  // namespace spillway::ops
