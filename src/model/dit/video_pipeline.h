// Pipelines of diffusers, as far as sampling goes: which transformer predicts which noise levels.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace spillway {

struct VideoPipeline {
  // Folders, in the order in which they are needed. Of two (Wan 2.2) the second predicts the timesteps below
  // `boundary`, of 1000.
  std::vector<std::filesystem::path> transformers;
  double boundary = 0;
};

// `folder` is a pipeline's, what full training leaves of one, or a transformer's own, which is all there is then. Two
// transformers are told by boundary_ratio in model_index.json, as WanPipeline has it. Reads no weights. Throws
// InputError, at MODEL for a pipeline without a transformer that it needs.
[[nodiscard]] VideoPipeline read_video_pipeline(const std::string& folder);

}  // namespace spillway
