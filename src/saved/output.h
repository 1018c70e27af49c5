// What a job reads, and what of its output_dir is the job's (io/output_folder.h).
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "io/output_folder.h"

namespace spillway::train {

// Models, adapters, tokenizers, data files and templates that the config names, where they are there. A checkpoint to
// go on from is none: it belongs to output_dir.
[[nodiscard]] std::vector<CommandInput> inputs_of(const config::Config& config);

// Whether training may write or remove a file of this name in output_dir itself.
[[nodiscard]] bool is_training_file(std::string_view name);

// Returns true if a file of this name is part of the model or adapter that a run leaves, and not of what it says of
// itself.
[[nodiscard]] bool is_result_file(std::string_view name);

// Removes from output_dir the model or adapter that an earlier run has left, as the folder's record names it
// (io/folder_record.h): first what makes others take the folder for one. Logs, README.md, checkpoints and what others
// keep there stay. Nothing where there is no record of a run.
void remove_earlier_result(const std::filesystem::path& folder);

// The rule for output_dir. Throws InputError where it holds something of the user's, or an input; changes nothing.
[[nodiscard]] SharedOutput training_output(const config::Config& config);

}  // namespace spillway::train
