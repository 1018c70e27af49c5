// How a job keeps the linear layers of its base: as the model's files have them, or quantised as they are loaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"

namespace spillway::infer {

// What load_in_4bit, load_in_8bit and LoftQ's bits come to for a model with these parameters that a job computes with
// in `dtype`; none: as in the files. Throws InputError for keys that contradict files with codes, and for
// llm_int8_skip_modules that are no regular expressions.
[[nodiscard]] std::optional<LinearStorage> linear_storage(const config::Config& config,
                                                          const ParameterTable& parameters, DType dtype);

// What somebody should know of how a job keeps its base, a line each: entries of llm_int8_skip_modules that are of no
// module, and an adapter of lora_model_dir that was trained over another one. `parameters` are the job's, adapter
// included. Throws InputError for an adapter's folder that cannot be read.
[[nodiscard]] std::vector<std::string> notes_on_base(const config::Config& config, const ParameterTable& parameters);

// Throws InputError for a base with codes that would be trained.
void check_codes_are_frozen(const config::Config& config, const ParameterTable& parameters);

}  // namespace spillway::infer
