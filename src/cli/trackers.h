// The trackers that a run's config asks for, with what variables of the environment say of them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/tracker_settings.h"
#include "dist/launch.h"
#include "job/job.h"
#include "report/trackers/mlflow_run.h"
#include "report/trackers/tracker.h"
#include "report/trackers/trackio_run.h"
#include "report/trackers/wandb_run.h"
#include "saved/run_identity.h"
#include "saved/training_length.h"

namespace spillway {

// Returns the values that a tracker shows as a run's settings: those of the keys that the config gives, and those that
// results depend on, under the names of keys. Tokens are left out.
[[nodiscard]] nlohmann::ordered_json tracked_settings(const config::LoadedConfig& loaded, const train::Job& job,
                                                      const train::TrainingLength& length);

// Return what the config says and, where it says nothing, the variables of wandb and MLflow. `settings` are those of
// tracked_settings(). wandb_info throws InputError for a WANDB_RUN_ID that is no part of a file's name.
[[nodiscard]] WandbRunInfo wandb_info(const config::WandbSettings& wandb, const train::RunIdentity& run,
                                      nlohmann::ordered_json settings, const Environment& environment);
[[nodiscard]] MlflowRunInfo mlflow_info(const config::MlflowSettings& mlflow, const train::RunIdentity& run,
                                        const std::filesystem::path& output, nlohmann::ordered_json settings,
                                        const Environment& environment);
[[nodiscard]] TrackioRunInfo trackio_info(const config::TrackioSettings& trackio, const train::RunIdentity& run,
                                          const std::filesystem::path& output, nlohmann::ordered_json settings);

// Returns true unless the config or the environment says that wandb's files are not wanted.
[[nodiscard]] bool is_wandb_enabled(const config::WandbSettings& wandb, const Environment& environment);
// Returns the folder of offline runs: WANDB_DIR/wandb, or OUTPUT/wandb.
[[nodiscard]] std::filesystem::path wandb_folder(const std::filesystem::path& output, const Environment& environment);
// Returns the folder of MLflow's file store: that of the URI, or OUTPUT/mlruns. A server in the environment is not
// used, which a warning says; one in the config was refused when that was read.
[[nodiscard]] std::filesystem::path mlflow_store(const config::MlflowSettings& mlflow,
                                                 const std::filesystem::path& output, const Environment& environment);

// Returns the folder that holds trackio's inbox: TRACKIO_DIR, or OUTPUT/trackio.
[[nodiscard]] std::filesystem::path trackio_folder(const std::filesystem::path& output, const Environment& environment);

// Opens the trackers, and TensorBoard's files. They go on at `resumed`. `values` are those of tracked_settings().
// Throws as they do.
[[nodiscard]] std::vector<std::unique_ptr<Tracker>> open_trackers(const config::OutputSettings& output,
                                                                  const config::TrackerSettings& settings,
                                                                  const train::RunIdentity& run, ResumePoint resumed,
                                                                  const nlohmann::ordered_json& values,
                                                                  const Environment& environment);

}  // namespace spillway
