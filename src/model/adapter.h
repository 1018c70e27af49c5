// LoRA adapters in PEFT's folders: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/lora.h"
#include "model/model.h"

namespace spillway {

// Returns the model with a separate head if the adapter trains embedding or head in full, even if the files tie the
// two: PEFT trains a copy. Otherwise returns the same model.
[[nodiscard]] ModelPtr untie_head(ModelPtr model, const LoraOptions& lora);

// The same for an adapter in a folder, whose embedding may also have more rows than the model's files, and which may
// have a score: then the model gets that score. Throws InputError for a score beside a model that reads no text.
[[nodiscard]] ModelPtr fit_to_adapter(ModelPtr model, const LoraOptions& lora, const std::filesystem::path& folder);

// Parses an adapter_config.json; target_modules only if they are a list, not a pattern. `where` names the file in
// errors. Throws InputError for unsupported adapters (trained biases, repeated layers, ...).
[[nodiscard]] LoraOptions parse_adapter_config(std::string_view json, std::string_view where);

// Returns the file with an adapter's options: FOLDER/adapter_config.json, or diffusers' weight file.
[[nodiscard]] std::filesystem::path adapter_config_place(const std::filesystem::path& folder);
// Reads that file. The layers are those that have tensors in the folder.
[[nodiscard]] LoraOptions read_adapter_options(const std::filesystem::path& folder);

// Returns true if the model has a score head instead of predicting tokens.
[[nodiscard]] bool has_score(const ParameterTable& parameters);

// Returns the text of an adapter_config.json. `base_model` is the name or path of the base model.
[[nodiscard]] std::string adapter_config_json(const ParameterTable& parameters, const LoraOptions& lora,
                                              std::string_view base_model);

}  // namespace spillway
