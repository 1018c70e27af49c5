// A video dataset and a model that need no download: shapes that move about, as pixels; a "text" is a row of a table
// for each of its words. docs/video.md shows what becomes of it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// Words, in the order of their rows in the table of texts. The last shape is in no clip of the first training.
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

// Pixels [3, kShapeFrames, kShapeSize, kShapeSize] from -1 to 1: black, and the shape with smooth edges, which moves a
// pixel a frame and bounces off the walls.
[[nodiscard]] std::vector<float> draw(const MovingShape& shape);

struct MovingShapesOptions {
  int64_t clips = 2000;       // of disc, square and cross
  int64_t other_clips = 256;  // of the triangle
  uint64_t seed = 42;
};

// Writes into `folder`, which exists and is empty:
//   model/       a pipeline as diffusers lays it out: a random Wan of about 4 M parameters
//   clips/, triangles/    the rows, a safetensors file each
//   prompts/     a text each, for `spillway sample --text`; prompts.json: word -> row of the table
// The same for equal options. `progress` is told of clips.
void write_moving_shapes(const std::filesystem::path& folder, const MovingShapesOptions& options,
                         const std::function<void(int64_t done, int64_t of)>& progress);

}  // namespace spillway
