// Settings of video transformers, resolved. Members have the names of the keys.
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

#include "config/keys/settings_begin.inc"
struct VideoKeys {
#include "config/keys/video.def"
};
#include "config/keys/end.inc"

struct VideoSettings : VideoKeys {
  data::FlowOptions flow;                 // without mean and deviation of the latents
  std::optional<bool> normalize_latents;  // none: where the model's folder says mean and deviation
  std::optional<EmaSettings> ema;
  // Channels, frames, rows and columns of every clip, where a plan is to be made without rows.
  std::optional<std::array<int64_t, 4>> clip_shape;
  // Keys that the config gives which mean something to models of clips alone, and to models of text alone.
  std::vector<GivenKey> of_video, of_text;
};

}  // namespace spillway::config
