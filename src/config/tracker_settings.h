// The trackers of experiments that a run writes files for, beside TensorBoard (OutputSettings).
#pragma once

#include <optional>
#include <string>

namespace spillway::config {

// An offline run of wandb. Empty texts are left to wandb's variables of the environment.
struct WandbSettings {
  std::string project, entity, name, run_id;
  std::string mode;  // online and offline both write the files; disabled writes none
};

// A run in a file store of MLflow. Empty texts are left to MLflow's variables of the environment.
struct MlflowSettings {
  std::string tracking_uri, experiment, name;
};

// A run for trackio's dashboard. An empty name is left to the output folder's.
struct TrackioSettings {
  std::string project, name;
};

struct TrackerSettings {
  std::optional<WandbSettings> wandb;
  std::optional<MlflowSettings> mlflow;
  std::optional<TrackioSettings> trackio;
};

struct LoadedConfig;

// Returns the trackers that a config asks for. Loading has checked their keys.
[[nodiscard]] TrackerSettings trackers_of(const LoadedConfig& loaded);

}  // namespace spillway::config
