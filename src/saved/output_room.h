// What a run writes into output_dir, and whether the disk has room for it.
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

// How many checkpoints more a run of `total_steps` has in its folder at once, of which `kept` are there after `step`
// steps. Before an old one is removed the new one is there.
[[nodiscard]] int64_t checkpoints_to_come(const config::OutputSettings& output, int64_t step, int64_t total_steps,
                                          int64_t steps_per_epoch, int64_t kept);

// Throws InputError where the disk of `folder`, which need not be there, has not room for the model and one of the
// checkpoints to come; warns where it has not room for all of them. Where the system does not say, it has.
void check_room(const std::filesystem::path& folder, const OutputBytes& bytes, int64_t checkpoints);

}  // namespace spillway::train
