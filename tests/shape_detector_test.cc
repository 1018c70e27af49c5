// The detector that judges what the moving-shapes example learns, on clips of which all is known.
#include "tests/support/shape_detector.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cli/examples/moving_shapes.h"
#include "data/clips/clip_draws.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// Every shape, colour and direction, from several places.
std::vector<MovingShape> all_shapes() {
  std::vector<MovingShape> shapes;
  for (int64_t shape = 0; shape < std::ssize(kShapeWords); ++shape) {
    for (int64_t colour = 0; colour < std::ssize(kColourWords); ++colour) {
      for (int64_t direction = 0; direction < std::ssize(kDirectionWords); ++direction) {
        for (const double start : {0.0, 0.2, 0.499}) {
          for (const double side : {0.0, 0.35, 1.0}) shapes.push_back({shape, colour, direction, start, side});
        }
      }
    }
  }
  return shapes;
}

// As a model draws that has not learned all: with noise, and paler.
std::vector<float> rough(std::vector<float> pixels, int64_t sample) {
  std::vector<float> noise(pixels.size());
  data::fill_noise(1, sample, 0, noise);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = 0.8F * pixels[i] + 0.2F * noise[i];
  return pixels;
}

// Frames in another order.
std::vector<float> reordered(const std::vector<float>& pixels, const std::vector<size_t>& frames) {
  constexpr auto kPlane = static_cast<size_t>(kShapeSize * kShapeSize);
  std::vector<float> result;
  for (size_t channel = 0; channel < 3; ++channel) {
    for (const size_t frame : frames) {
      const auto* const from = pixels.data() + (channel * kShapeFrames + frame) * kPlane;
      result.insert(result.end(), from, from + kPlane);
    }
  }
  return result;
}

}  // namespace

TEST_CASE("the detector finds colour and direction of every moving shape, of rough ones, too") {
  int64_t sample = 0;
  for (const MovingShape& shape : all_shapes()) {
    CAPTURE(shape.caption());
    CAPTURE(shape.start);
    CAPTURE(shape.side);
    for (const std::vector<float>& pixels : {draw(shape), rough(draw(shape), sample++)}) {
      const DetectedShape found = detect_shape(pixels);
      CHECK(found.colour == shape.colour);
      CHECK(found.direction == shape.direction);
    }
  }
}

TEST_CASE("the detector sees the other direction in a clip that runs backwards, and none in one that stands still") {
  for (const MovingShape& shape : all_shapes()) {
    if (shape.start > 0) continue;  // the others have met a wall at the end
    CAPTURE(shape.caption());
    const std::vector<float> pixels = draw(shape);
    CHECK(detect_shape(reordered(pixels, {7, 6, 5, 4, 3, 2, 1, 0})).direction == (shape.direction ^ 1));
    const DetectedShape still = detect_shape(reordered(pixels, {3, 3, 3, 3, 3, 3, 3, 3}));
    CHECK(still.colour == shape.colour);
    CHECK_FALSE(still.direction.has_value());
    CHECK_FALSE(detect_shape(reordered(pixels, {3, 5, 2, 4, 3, 5, 2, 4})).direction.has_value());
  }
}

TEST_CASE("the detector finds nothing in black, white and noise") {
  std::vector<float> pixels(static_cast<size_t>(3 * kShapeFrames * kShapeSize * kShapeSize));
  for (const float light : {-1.0F, 1.0F}) {
    std::fill(pixels.begin(), pixels.end(), light);
    CHECK_FALSE(detect_shape(pixels).colour.has_value());
    CHECK_FALSE(detect_shape(pixels).direction.has_value());
  }
  for (int64_t sample = 0; sample < 100; ++sample) {
    data::fill_noise(2, sample, 0, pixels);
    CHECK_FALSE(detect_shape(pixels).direction.has_value());
  }
}
