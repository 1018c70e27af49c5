// Loads the persistent values with which a training job begins from the folders of models and adapters. Handles one
// value at a time, in whichever tier it lives.
#pragma once

#include <optional>
#include <vector>

#include "io/safetensors.h"
#include "job/job.h"
#include "job/training_graph.h"
#include "runtime/value_store.h"

namespace spillway::train {

// Says if folders may lack weights, as those of a model that is only planned for.
enum class MissingWeights { kRefused, kAllowed };

// The opened weight files of a job's initial state; none if the job has no such model, or its folder has no weights.
struct WeightFiles {
  std::optional<SafetensorsFolder> base, adapter, reference, value;  // reference: of another model alone
  std::vector<std::optional<SafetensorsFolder>> beside;              // of TrainingGraph::beside
};
// Opens the files; reads headers only. Throws InputError if the files have other weights than the configs of their
// models say, or are truncated, or are missing and must not be.
[[nodiscard]] WeightFiles open_weight_files(const Job& job, MissingWeights missing = MissingWeights::kRefused);

// Loads the base weights, the adapter of lora_model_dir or a fresh one, the reference's copies of either, the weights
// of reward models and of the value model, and clears the optimizer's state. Throws InputError for folders that do not
// fit the job, before anything is read.
class InitialState {
 public:
  explicit InitialState(const Job& job) : files_(open_weight_files(job)) {}
  void load(const Job& job, const TrainingGraph& training, ValueStore& store) const;
  [[nodiscard]] const WeightFiles& files() const { return files_; }
  [[nodiscard]] const SafetensorsFolder& base() const { return *files_.base; }
  // Returns the weights of a reference without an adapter.
  [[nodiscard]] const SafetensorsFolder& reference() const { return files_.reference ? *files_.reference : base(); }

 private:
  WeightFiles files_;
};

// Reads the trained weights from a model or an adapter that a run has written.
void load_trained_weights(const SafetensorsFolder& folder, const Job& job, const TrainingGraph& training,
                          ValueStore& store);

}  // namespace spillway::train
