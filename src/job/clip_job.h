// The clips of a job before weights are read: how they become batches, and how large the largest is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_field.h"
#include "config/config.h"
#include "data/clips/clip_draws.h"
#include "data/clips/clip_rows.h"
#include "model/model.h"

namespace spillway::train {

// Rows to train on, or to evaluate on.
struct ClipSet {
  std::shared_ptr<const data::ClipRows> rows;  // null: there are none
  std::vector<int64_t> chosen;                 // of them, in ascending order

  [[nodiscard]] int64_t size() const { return std::ssize(chosen); }
};
struct ClipSets {
  ClipSet training, validation;
};

// The number of text tokens by which diffusers tells an image's tokens from the text's.
constexpr int64_t kTextBesideImages = 512;

[[nodiscard]] data::ClipDemands demands_of(const VideoModel& model);

struct ClipJob {
  data::ClipDemands demands;
  data::FlowOptions flow;
  bool preconditions = false;
  int64_t max_frames = 0;                // of latents
  int64_t max_patches = 0;               // of a clip
  std::shared_ptr<const ClipSets> sets;  // null where clip_shape stands for the rows
  // For an evaluation that looks at each row at several timesteps: the timesteps, and the metric name of the loss at
  // each.
  struct EvaluationPoint {
    float timestep = 0;
    std::string key;  // "loss/t=500"
  };
  std::vector<EvaluationPoint> evaluation_points;
};

// Reads the headers of the rows, unless the config gives a clip_shape, and the mean and deviation of the latents beside
// the model's folder. If `before` keeps as many frames of each clip, takes its rows instead. Throws InputError for rows
// that do not suit the model, and for keys that only models of text have. REQUIRES: model.video().
[[nodiscard]] ClipJob make_clip_job(const config::Config& config, const Model& model, const ClipJob* before = nullptr);

// Returns the rows of a job; reads their headers if that has not been done. Throws InputError, also for a clip that is
// larger than clip_shape.
[[nodiscard]] std::shared_ptr<const ClipSets> open_clips(const config::Config& config, const ClipJob& job);

// Throws InputError if the config of a text model has a key that only models of clips have.
void check_no_video_keys(const config::Config& config);

}  // namespace spillway::train
