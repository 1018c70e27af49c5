// The storage of the base's linear layers in a job: as in the model's files, or quantised at load time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "model/parameters.h"

namespace spillway::infer {

// Returns true for the name of a storage of weights that only files have, and a run may have dense: mxfp4 and fp8.
[[nodiscard]] bool is_of_files(std::string_view storage);

// Returns the storage that load_in_4bit, load_in_8bit, dequantize and LoftQ's bits select for a model with these
// parameters and compute dtype; none: as in the files. Throws InputError for keys that contradict quantised files, and
// for llm_int8_skip_modules that are not regular expressions.
[[nodiscard]] std::optional<LinearStorage> linear_storage(const config::Config& config,
                                                          const ParameterTable& parameters, DType dtype);

// Returns notes for the user about the storage of the base, one per line: entries of llm_int8_skip_modules that match
// no module, what the experts of a quantised base take that are not, and an adapter of lora_model_dir that was trained
// over another storage. `parameters` are the job's, adapter included. Throws InputError for an adapter folder that
// cannot be read.
[[nodiscard]] std::vector<std::string> notes_on_base(const config::Config& config, const ParameterTable& parameters);

// Throws InputError if a quantised base would be trained, or is in another format than the config says.
void check_base(const config::Config& config, const ParameterTable& parameters);

}  // namespace spillway::infer
