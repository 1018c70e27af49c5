// checkpoint-STEP folders: what the model folder of that step would be, and what continues the run bit for bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/stream/row_stream.h"
#include "train/state.h"

namespace spillway::train {

// Where a run is. Everything else follows from the config: the order of rows is a pure function of seed and epoch, and
// every random number one of seed and step. With a stream, rows and steps_per_epoch are 0.
struct TrainingPosition {
  int64_t step = 0;        // optimizer steps done
  int64_t num_tokens = 0;  // seen so far
  // Of the data, so that another data set is noticed.
  int64_t rows = 0;
  std::string rows_checksum;  // data::RowTable::checksum; empty: not known
  int64_t steps_per_epoch = 0;
  std::optional<data::StreamPosition> stream;  // of the next step
  std::string stream_identity;                 // data::stream_identity, with a stream
};

// Writes OUTPUT/checkpoint-STEP atomically, then removes the oldest beyond `limit` (0: none).
void save_checkpoint(const std::filesystem::path& output, const TrainingPosition& position, const Job& job,
                     const TrainingGraph& training, ValueStore& store, int64_t limit);

// The checkpoint with the highest step in the folder, if there is one.
[[nodiscard]] std::optional<std::filesystem::path> last_checkpoint(const std::filesystem::path& output);

// Reads the state of a checkpoint. Throws InputError where it belongs to another job or to other data.
[[nodiscard]] TrainingPosition load_checkpoint(const std::filesystem::path& folder, const TrainingPosition& expected,
                                               const TrainingGraph& training, ValueStore& store);

}  // namespace spillway::train
