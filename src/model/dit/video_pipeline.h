// Diffusers' pipelines for sampling: which transformer predicts which noise levels.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace spillway {

struct VideoPipeline {
  // The folders, in the order in which they are needed. The second of two (Wan 2.2) predicts the timesteps below
  // `boundary`, of 1000.
  std::vector<std::filesystem::path> transformers;
  double boundary = 0;
};

// Reads a pipeline. `folder` is that of a pipeline, or the output of full training, or a transformer's own folder,
// which is then the only one. Two transformers are recognised by boundary_ratio in model_index.json, as in WanPipeline.
// Reads no weights. Throws InputError, at MODEL for a pipeline without a transformer that it needs.
[[nodiscard]] VideoPipeline read_video_pipeline(const std::string& folder);

}  // namespace spillway
