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
#include "job/job.h"

#include "job/online/completion.h"
#include "runtime/value_store.h"

namespace spillway::train {

// Name of a tensor of a file or a folder of files -> checksum of its bytes there (io/checksum.h).
using TensorSums = std::map<std::string, std::string>;

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
// What the state takes in the file, without a round and the header.
[[nodiscard]] int64_t state_bytes(const TrainingGraph& training);
// A round's tensors are passed over. Throws InputError where the file belongs to another job, and where a tensor
// differs from `sums`, which may be null.
void load_optimizer_state(const std::filesystem::path& file, const TrainingGraph& training, ValueStore& store,
                          const TensorSums* sums = nullptr);

// A tensor of a checkpoint that is not what was written.
[[nodiscard]] InputError damaged_tensor(std::string_view file, std::string_view tensor);

}  // namespace spillway::train
