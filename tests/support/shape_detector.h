// What a clip of the moving-shapes example shows, found by plain arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace spillway::testing {

struct DetectedShape {
  // Into kColourWords and kDirectionWords; nothing where the clip does not say it clearly.
  std::optional<int64_t> colour, direction;
};

// Of pixels as draw() makes them; what is beyond -1 to 1 is cut. A pixel is lit where one of its channels is above
// half. The colour is that of the channels which are above half in the mean of all lit pixels. The direction is where
// the centre of the lit pixels goes in the frames before any shape meets a wall: by half a pixel a frame at least
// (shapes move by one), and half as much across at most.
[[nodiscard]] DetectedShape detect_shape(std::span<const float> pixels);

}  // namespace spillway::testing
