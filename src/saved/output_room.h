// Checks that the disk has room for what a run writes into output_dir.
#pragma once

#include <cstdint>
#include <filesystem>

#include "config/config.h"

namespace spillway::train {

// Sizes of files, without their headers.
struct OutputBytes {
  int64_t model = 0;       // saved_bytes()
  int64_t checkpoint = 0;  // the same and state_bytes()
};

// Returns the largest number of additional checkpoints that a run of `total_steps` steps keeps at once after `step`
// steps, if `kept` are there already. A new one is written before an old one is removed.
[[nodiscard]] int64_t checkpoints_to_come(const config::OutputSettings& output, int64_t step, int64_t total_steps,
                                          int64_t steps_per_epoch, int64_t kept);

// Throws InputError if the disk of `folder`, which need not exist, has no room for the model and one of the checkpoints
// to come; warns if it has no room for all of them. Does nothing if the free space is unknown.
void check_room(const std::filesystem::path& folder, const OutputBytes& bytes, int64_t checkpoints);

}  // namespace spillway::train
