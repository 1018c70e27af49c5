// The contents of a training job's persistent values: loaded from model, adapter and checkpoint folders, and saved in
// checkpoints. Handles one value at a time, in whichever tier it lives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/safetensors.h"
#include "model/weights.h"
#include "runtime/value_store.h"
#include "train/job.h"
#include "train/online/completion.h"

namespace spillway::train {

// Maps the name of a tensor in a file or a folder of files to the checksum of its bytes there (io/checksum.h).
using TensorSums = std::map<std::string, std::string>;

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
  [[nodiscard]] const SafetensorsFolder& base() const { return *files_.base; }
  // Returns the weights of a reference without an adapter.
  [[nodiscard]] const SafetensorsFolder& reference() const { return files_.reference ? *files_.reference : base(); }

 private:
  WeightFiles files_;
};

// Fills a trained weight in one pass. `fill` writes the elements of its most exact copy, in the dtype that it is given;
// a working copy beside a master gets them rounded. `where` names their source in errors.
void write_exact(ValueStore& store, const TrainingGraph& training, const TrainedWeight& t, std::string_view where,
                 const ValueStore::Visitor& fill);

// Reads the most exact copy of a trained weight, whole and in order: its f32 master, or the weight itself.
void read_exact(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                const ValueStore::Visitor& use);

// Reads the average of a trained weight, in f32. REQUIRES: the job has averages.
void read_average(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                  const ValueStore::Visitor& use);

// Returns a visitor that appends each piece it reads to a tensor of a file that is written in order. Borrows its
// arguments.
template <typename Writer>
ValueStore::Visitor appender(Writer& writer, const std::string& name) {
  return [&](const TensorView& piece, int64_t) { writer.append(name, piece.data, piece.dtype, piece.elems()); };
}

// Saves the state bit for bit: masters, moments, the trained weights that have no master, the optimizer's common state,
// and a reference that changes. Each is one tensor of the weight's shape, named "<state>.<weight>" or as the weight,
// however the graph slices it. The tokens of a round of online training are saved with it (train/online/saved_round.h).
// REQUIRES: the weights in training are in place (train/evaluated_weights.h).
TensorSums save_optimizer_state(const std::filesystem::path& file, const TrainingGraph& training, ValueStore& store,
                                const Round* round = nullptr);
// Reads the trained weights from a model or an adapter that a run has written.
void load_trained_weights(const SafetensorsFolder& folder, const Job& job, const TrainingGraph& training,
                          ValueStore& store);
// Returns the size of the state in the file, without a round and the header.
[[nodiscard]] int64_t state_bytes(const TrainingGraph& training);
// Loads the state; skips a round's tensors. Throws InputError if the file belongs to another job, or if a tensor
// differs from `sums`, which may be null.
void load_optimizer_state(const std::filesystem::path& file, const TrainingGraph& training, ValueStore& store,
                          const TensorSums* sums = nullptr);

// Returns the error for a tensor of a checkpoint that is not as it was written.
[[nodiscard]] InputError damaged_tensor(std::string_view file, std::string_view tensor);

}  // namespace spillway::train
