#include "tests/support/shape_detector.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/examples/moving_shapes.h"

namespace spillway::testing {
namespace {

constexpr double kLit = 0.5;                            // of light from 0 to 1
constexpr int64_t kFramesBeforeWalls = 5;               // shapes start in the first half of their way, 9.6 pixels long
constexpr double kLeastSpeed = 0.5, kMostAcross = 0.5;  // pixels a frame; of the speed along

// The light in a frame and its centre.
struct Lit {
  double light = 0, x = 0, y = 0;       // sums
  std::array<double, 3> channels = {};  // likewise
};

Lit lit_of(std::span<const float> pixels, int64_t frame) {
  constexpr auto kPlane = static_cast<size_t>(kShapeSize * kShapeSize);
  Lit lit;
  for (size_t i = 0; i < kPlane; ++i) {
    std::array<double, 3> light{};
    for (size_t channel = 0; channel < light.size(); ++channel) {
      const float pixel = pixels[(channel * kShapeFrames + static_cast<size_t>(frame)) * kPlane + i];
      light[channel] = (std::clamp(static_cast<double>(pixel), -1.0, 1.0) + 1) / 2;
    }
    const double most = *std::max_element(light.begin(), light.end());
    if (most <= kLit) continue;
    lit.light += most;
    lit.x += most * static_cast<double>(i % kShapeSize);
    lit.y += most * static_cast<double>(i / kShapeSize);
    for (size_t channel = 0; channel < light.size(); ++channel) lit.channels[channel] += light[channel];
  }
  return lit;
}

std::optional<int64_t> colour_of(const std::array<Lit, kShapeFrames>& frames) {
  double light = 0;
  std::array<double, 3> sums{};
  for (const Lit& frame : frames) {
    light += frame.light;
    for (size_t channel = 0; channel < sums.size(); ++channel) sums[channel] += frame.channels[channel];
  }
  if (light == 0) return {};
  int bits = 0;
  for (const double sum : sums) bits = 2 * bits + (sum > kLit * light ? 1 : 0);
  constexpr std::array kColours = {0b100, 0b010, 0b001, 0b110, 0b101, 0b011};  // in the order of the words
  static_assert(kColours.size() == kColourWords.size());
  const auto* const found = std::find(kColours.begin(), kColours.end(), bits);
  if (found == kColours.end()) return {};
  return found - kColours.begin();
}

// The slope of the straight line nearest to numbers that follow each other.
double slope_of(std::span<const double> numbers) {
  const double middle = static_cast<double>(numbers.size() - 1) / 2;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double at = static_cast<double>(i) - middle;
    sum += at * numbers[i];
    squares += at * at;
  }
  return sum / squares;
}

std::optional<int64_t> direction_of(const std::array<Lit, kShapeFrames>& frames) {
  std::array<double, kFramesBeforeWalls> x{}, y{};
  for (size_t i = 0; i < x.size(); ++i) {
    if (frames[i].light == 0) return {};
    x[i] = frames[i].x / frames[i].light;
    y[i] = frames[i].y / frames[i].light;
  }
  const double right = slope_of(x), down = slope_of(y);
  const bool is_across = std::abs(right) > std::abs(down);
  const double along = is_across ? right : down, across = is_across ? down : right;
  if (std::abs(along) < kLeastSpeed || std::abs(across) > kMostAcross * std::abs(along)) return {};
  return (is_across ? 0 : 2) + (along > 0 ? 1 : 0);  // left, right, up, down
}

}  // namespace

DetectedShape detect_shape(std::span<const float> pixels) {
  std::array<Lit, kShapeFrames> frames;
  for (int64_t frame = 0; frame < kShapeFrames; ++frame) frames[static_cast<size_t>(frame)] = lit_of(pixels, frame);
  return {.colour = colour_of(frames), .direction = direction_of(frames)};
}

}  // namespace spillway::testing
