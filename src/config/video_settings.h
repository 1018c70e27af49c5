// What a config says of video transformers, resolved: members have the names of the keys.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/clips/clip_draws.h"

namespace spillway::config {

// Averages of the trained weights, in f32: the weights until after step `start_step` (at least the first), then decay x
// average + (1 - decay) x weights after each step.
struct EmaSettings {
  double decay = 0.9999;
  int64_t start_step = 0;
};

// A key that is of models of one kind alone.
struct GivenKey {
  std::string name, where;
};

struct VideoSettings {
  std::string component = "transformer";  // the pipeline's folder that is trained
  data::FlowOptions flow;                 // without mean and deviation of the latents
  bool precondition_outputs = false;
  std::optional<bool> normalize_latents;  // none: where the model's folder says mean and deviation
  std::vector<double> eval_timesteps;
  std::optional<EmaSettings> ema;
  bool log_samples = false;
  // Channels, frames, rows and columns of every clip, where a plan is to be made without rows.
  std::optional<std::array<int64_t, 4>> clip_shape;
  // Keys that the config gives which mean something to models of clips alone, and to models of text alone.
  std::vector<GivenKey> of_video, of_text;
};

}  // namespace spillway::config
