// What a job reads, and what of its output_dir is the job's (io/output_folder.h).
#pragma once

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

// The rule for output_dir. Throws InputError where it holds something of the user's, or an input; changes nothing.
[[nodiscard]] SharedOutput training_output(const config::Config& config);

}  // namespace spillway::train
