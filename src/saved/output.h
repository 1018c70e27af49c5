// The inputs of a job, and the files of its output_dir that belong to the job (io/output_folder.h).
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "io/output_folder.h"

namespace spillway::train {

// Returns the models, adapters, tokenizers, data files and templates that the config names and that exist. A checkpoint
// to resume from is not among them: it belongs to output_dir.
[[nodiscard]] std::vector<CommandInput> inputs_of(const config::Config& config);

// Returns true if training may write or remove a file of this name directly in output_dir.
[[nodiscard]] bool is_training_file(std::string_view name);

// Returns true if a file of this name is part of the saved model or adapter, as opposed to logs and the like.
[[nodiscard]] bool is_result_file(std::string_view name);

// Removes from output_dir the model or adapter of an earlier run that the folder's record names (io/folder_record.h),
// first the files by which others recognise a model. Logs, README.md, checkpoints and files of others stay. Does
// nothing without a record of a run.
void remove_earlier_result(const std::filesystem::path& folder);

// Returns the rules for output_dir. Throws InputError if it holds files of the user's, or an input. Changes nothing.
[[nodiscard]] SharedOutput training_output(const config::Config& config);

}  // namespace spillway::train
