// The contents of a training job's persistent values: filled from model, adapter and checkpoint folders, and kept in
// checkpoints. One value at a time, wherever it lives.
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
#include "job/job.h"
#include "job/online/completion.h"

namespace spillway::train {

// Name of a tensor of a file or a folder of files -> checksum of its bytes there (io/checksum.h).
using TensorSums = std::map<std::string, std::string>;

// Whether folders may have no weights, as those of a model that is only planned for.
enum class MissingWeights { kRefused, kAllowed };

// What a job begins with, opened. None: the job has no such model, or its folder has no weights.
struct WeightFiles {
  std::optional<SafetensorsFolder> base, adapter, reference, value;  // reference: of another model alone
  std::vector<std::optional<SafetensorsFolder>> beside;              // of TrainingGraph::beside
};
// Throws InputError where the files have other weights than the configs of their models say, or are cut short, and
// where they are missing and must not be. Reads headers only.
[[nodiscard]] WeightFiles open_weight_files(const Job& job, MissingWeights missing = MissingWeights::kRefused);

// Reads the base weights, the adapter of lora_model_dir or a fresh one, what the reference keeps of either, those of
// reward models and of the value model, and clears the optimizer's state.
// Throws InputError for folders that do not fit the job, before anything is read.
class InitialState {
 public:
  explicit InitialState(const Job& job) : files_(open_weight_files(job)) {}
  void load(const Job& job, const TrainingGraph& training, ValueStore& store) const;
  [[nodiscard]] const SafetensorsFolder& base() const { return *files_.base; }
  // Whose weights the reference has, where it has no adapter.
  [[nodiscard]] const SafetensorsFolder& reference() const { return files_.reference ? *files_.reference : base(); }

 private:
  WeightFiles files_;
};

// Fills a trained weight in one pass: `fill` writes the elements of its most exact copy, in the dtype that it is
// given, and a working copy beside a master gets what they round to. `where` names their source in errors.
void write_exact(ValueStore& store, const TrainingGraph& training, const TrainedWeight& t, std::string_view where,
                 const ValueStore::Visitor& fill);

// Reads the most exact copy of a trained weight, whole and in order: its f32 master, or itself.
void read_exact(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                const ValueStore::Visitor& use);

// The same of its average, in f32. REQUIRES: the job has averages.
void read_average(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                  const ValueStore::Visitor& use);

// What appends what is read, piece by piece, to a tensor of a file that is written in order. Both are borrowed.
template <typename Writer>
ValueStore::Visitor appender(Writer& writer, const std::string& name) {
  return [&](const TensorView& piece, int64_t) { writer.append(name, piece.data, piece.dtype, piece.elems()); };
}

// Masters, moments, (where there is no master) the trained weights themselves, what the optimizer keeps for all of
// them, and a reference that changes, bit for bit. Each is one tensor of the weight's shape, called "<state>.<weight>"
// or as the weight, however the graph slices it. REQUIRES: the weights in training are in place
// (saved/evaluated_weights.h). Beside it stand the tokens of a round of online training, where there is one
// (saved/saved_round.h).
TensorSums save_optimizer_state(const std::filesystem::path& file, const TrainingGraph& training, ValueStore& store,
                                const Round* round = nullptr);
// Reads the weights that are trained from a model or an adapter that a run has written.
void load_trained_weights(const SafetensorsFolder& folder, const Job& job, const TrainingGraph& training,
                          ValueStore& store);
// What the state takes in the file, without a round and the header.
[[nodiscard]] int64_t state_bytes(const TrainingGraph& training);
// A round's tensors are passed over. Throws InputError where the file belongs to another job, and where a tensor
// differs from `sums`, which may be null.
void load_optimizer_state(const std::filesystem::path& file, const TrainingGraph& training, ValueStore& store,
                          const TensorSums* sums = nullptr);

// A tensor of a checkpoint that is not what was written.
[[nodiscard]] InputError damaged_tensor(std::string_view file, std::string_view tensor);

}  // namespace spillway::train
