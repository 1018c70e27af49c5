// The starting point of a run. It is chosen before the data are read, since chat templates show the time at which the
// run first started.
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

// Returns the checkpoint of resume_from_checkpoint, or with auto_resume_from_checkpoints the last one of the run that
// last started in output_dir. Logs which checkpoints in output_dir are of earlier runs: they stay, and are ignored.
// Throws InputError for a checkpoint that cannot be read. REQUIRES: the caller has locked output_dir.
[[nodiscard]] RunStart choose_start(const config::OutputSettings& output);

// Returns the time at which the run that choose_start() would choose first started (base/local_time.h). Chat templates
// show it, also for data that are read before output_dir is locked. Changes and logs nothing. Throws as choose_start().
[[nodiscard]] std::string first_start(const config::OutputSettings& output);

}  // namespace spillway::train
