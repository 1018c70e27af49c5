// The state that checkpoints keep of a training job's persistent values. Handles one value at a time, in whichever
// tier it lives.
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

// Maps the name of a tensor in a file or a folder of files to the checksum of its bytes there (io/checksum.h).
using TensorSums = std::map<std::string, std::string>;

// Returns a visitor that appends each piece it reads to a tensor of a file that is written in order. Borrows its
// arguments.
template <typename Writer>
ValueStore::Visitor appender(Writer& writer, const std::string& name) {
  return [&](const TensorView& piece, int64_t) { writer.append(name, piece.data, piece.dtype, piece.elems()); };
}

// Saves the state bit for bit: masters, moments, the trained weights that have no master, the optimizer's common state,
// and a reference that changes. Each is one tensor of the weight's shape, named "<state>.<weight>" or as the weight,
// however the graph slices it. The tokens of a round of online training are saved with it (saved/saved_round.h).
// REQUIRES: the weights in training are in place (saved/evaluated_weights.h).
TensorSums save_optimizer_state(const std::filesystem::path& file, const TrainingGraph& training, ValueStore& store,
                                const Round* round = nullptr);
// Returns the size of the state in the file, without a round and the header.
[[nodiscard]] int64_t state_bytes(const TrainingGraph& training);
// Loads the state; skips a round's tensors. Throws InputError if the file belongs to another job, or if a tensor
// differs from `sums`, which may be null.
void load_optimizer_state(const std::filesystem::path& file, const TrainingGraph& training, ValueStore& store,
                          const TensorSums* sums = nullptr);

// Returns the error for a tensor of a checkpoint that is not as it was written.
[[nodiscard]] InputError damaged_tensor(std::string_view file, std::string_view tensor);

}  // namespace spillway::train
