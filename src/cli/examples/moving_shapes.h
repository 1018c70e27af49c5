// A video dataset and a model that need no download: moving shapes, as pixels. A "text" has a row of a table for each
// of its words. docs/video.md shows the results.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// The words, in the order of their rows in the table of texts. No clip of the first training has the last shape.
inline constexpr std::array<std::string_view, 4> kShapeWords = {"disc", "square", "cross", "triangle"};
inline constexpr std::array<std::string_view, 6> kColourWords = {"red", "green", "blue", "yellow", "magenta", "cyan"};
inline constexpr std::array<std::string_view, 4> kDirectionWords = {"left", "right", "up", "down"};

constexpr int64_t kShapeFrames = 8, kShapeSize = 16, kWordWidth = 32;

struct MovingShape {
  int64_t shape = 0, colour = 0, direction = 0;  // into the words
  double start = 0;  // along the direction, from 0 at the wall behind to 1 at the wall ahead
  double side = 0;   // across it, from wall to wall

  // "a red disc moves left"
  [[nodiscard]] std::string caption() const;
};

// Returns pixels [3, kShapeFrames, kShapeSize, kShapeSize] from -1 to 1: the shape with smooth edges on black, moving
// by one pixel per frame and bouncing off the walls.
[[nodiscard]] std::vector<float> draw(const MovingShape& shape);

struct MovingShapesOptions {
  int64_t clips = 2000;       // of disc, square and cross
  int64_t other_clips = 256;  // of the triangle
  uint64_t seed = 42;
};

// Writes into `folder`, which exists and is empty:
//   model/       a pipeline in diffusers' layout: a random Wan of about 4 M parameters
//   clips/, triangles/    the rows, a safetensors file each
//   prompts/     one text per file, for `spillway sample --text`; prompts.json: word -> row of the table
// Equal options give equal files. Calls `progress` with the number of clips.
void write_moving_shapes(const std::filesystem::path& folder, const MovingShapesOptions& options,
                         const std::function<void(int64_t done, int64_t of)>& progress);

}  // namespace spillway
