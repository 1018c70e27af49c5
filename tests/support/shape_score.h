// Scores how well a model draws the moving-shapes example's prompts, by the detector.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace spillway::testing {

struct ScoredClip {
  std::string prompt;                              // "a-red-disc-moves-left"
  uint64_t seed = 0;                               // of the noise
  bool has_colour = false, has_direction = false;  // as asked
};

// Each prompt of `example`, which `spillway make-example` wrote, drawn by `spillway sample` with `model` out of the
// noise of each seed. A sample that fails is an std::runtime_error with what it said.
[[nodiscard]] std::vector<ScoredClip> score_moving_shapes(const std::filesystem::path& example,
                                                          const std::filesystem::path& model,
                                                          const std::vector<uint64_t>& seeds, double guidance);

}  // namespace spillway::testing
