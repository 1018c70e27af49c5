// Runs over clips of a video model, before weights are read: how clips become batches, and how large the largest is.
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
#include "job/run_kind.h"
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

class ClipJob final : public RunKind {
 public:
  void take_model(Job& job) const override;
  [[nodiscard]] RowShape read(const RunKind* before, Job& job) override;
  void take_objective(Job& job) const override;
  [[nodiscard]] TrainingData load(const Job& job, const std::optional<std::tm>& now,
                                  const std::function<void(int64_t records)>& progress) const override;
  [[nodiscard]] std::string_view unit() const override { return "patches"; }
  [[nodiscard]] std::string method(const Job& job) const override;
  [[nodiscard]] CardWords card(const Job& job) const override;
  void add_settings(const Job& job, RunSettings& settings) const override;
  [[nodiscard]] SuggestedChange shorter_rows(const config::LoadedConfig& loaded, const Job& job) const override;

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
// that do not suit the model. REQUIRES: model.video().
[[nodiscard]] ClipJob make_clip_job(const config::Config& config, const Model& model, const ClipJob* before = nullptr);

// Returns the rows of a job; reads their headers if that has not been done. Throws InputError, also for a clip that is
// larger than clip_shape.
[[nodiscard]] std::shared_ptr<const ClipSets> open_clips(const config::Config& config, const ClipJob& job);

// Throws InputError if the config of a video model has a key that only models of text have.
void check_no_text_keys(const config::Config& config);
// Throws InputError if the config of a text model has a key that only models of clips have.
void check_no_video_keys(const config::Config& config);

}  // namespace spillway::train
