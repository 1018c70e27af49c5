// Detects the shape in a clip of the moving-shapes example by plain arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace spillway::testing {

struct DetectedShape {
  // Into kColourWords and kDirectionWords; nothing where the clip does not say it clearly.
  std::optional<int64_t> colour, direction;
};

// Detects the shape in pixels as draw() makes them; clamps them to -1 to 1. A pixel is lit if one of its channels is
// above half. The colour is given by the channels that are above half in the mean of all lit pixels. The direction is
// that of the centre of the lit pixels in the frames before any shape meets a wall, if it moves at least half a pixel
// per frame (shapes move by one) and at most half as much across.
[[nodiscard]] DetectedShape detect_shape(std::span<const float> pixels);

}  // namespace spillway::testing
