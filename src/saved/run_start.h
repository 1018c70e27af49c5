// What a run goes on from, decided before its data are read: chat templates show the time at which it first began.
#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "saved/checkpoint.h"

namespace spillway::train {

struct RunStart {
  RunIdentity run;
  std::optional<CheckpointRecord> checkpoint;  // none: from the beginning
};

// The checkpoint of resume_from_checkpoint, or with auto_resume_from_checkpoints the last one of the run that last
// began in output_dir. Says which checkpoints in output_dir are of earlier runs: they stay, and count for nothing.
// Throws InputError for a checkpoint that cannot be read. REQUIRES: the caller holds output_dir.
[[nodiscard]] RunStart choose_start(const config::OutputSettings& output);

// When the run that choose_start() would choose began for the first time (base/local_time.h): chat templates show that,
// also in what is read before output_dir is held. Changes and says nothing. Throws as choose_start().
[[nodiscard]] std::string first_start(const config::OutputSettings& output);

}  // namespace spillway::train
