// A LoRA adapter in a folder, as PEFT keeps it: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/lora.h"
#include "model/model.h"

namespace spillway {

// The modules of the linear layers that `lora` adapts, in the order of the model. Throws InputError at `where` (a
// config key or a file) for a target that is no linear layer of these parameters.
[[nodiscard]] std::vector<std::string> lora_targets(const ParameterTable& parameters, const LoraOptions& lora,
                                                    std::string_view where);

// The names of the weights of `modules_to_save`, in the order of the model. Throws InputError at `where` for a module
// that no path ends in, and for a linear layer that has factors, too.
[[nodiscard]] std::vector<std::string> saved_weights(const ParameterTable& parameters, const LoraOptions& lora,
                                                     std::string_view where);

// Where one of embedding and head is trained in full, it is a weight of its own even if the files tie the two: PEFT
// trains a copy of it. Returns the model with such a head, or the same model.
[[nodiscard]] ModelPtr untie_head(ModelPtr model, const LoraOptions& lora);

// The same for an adapter in a folder, whose embedding may besides have more rows than the model's files, and which may
// have a score: then the model has that one. Throws InputError for a score beside a model that reads no text.
[[nodiscard]] ModelPtr fit_to_adapter(ModelPtr model, const LoraOptions& lora, const std::filesystem::path& folder);

// A stable number for a name (FNV-1a), to key its random stream by.
[[nodiscard]] uint64_t random_stream_of(std::string_view name);

// Fills elements [first_elem, first_elem + a.size()) of A as PEFT initialises it, uniform in +-1/sqrt(in_features); B
// starts at zero. The numbers depend on the seed, the module's name and their place in A alone. REQUIRES: kLoraA.
void initialise_lora_a(std::span<float> a, int64_t first_elem, const Parameter& factor, uint64_t seed);

// The same with normal numbers: PEFT's "gaussian" of A, with a deviation of 1/r, and a score that is new.
void initialise_normal(std::span<float> values, int64_t first_elem, const Parameter& parameter, double deviation,
                       uint64_t seed);

// Reads the text of an adapter_config.json, its target_modules only where they are a list, not a pattern. `where` names
// it in errors. Throws InputError for adapters of another kind (trained biases, repeated layers, ...).
[[nodiscard]] LoraOptions parse_adapter_config(std::string_view json, std::string_view where);

// Where an adapter says what it is: FOLDER/adapter_config.json, or the file of diffusers.
[[nodiscard]] std::filesystem::path adapter_config_place(const std::filesystem::path& folder);
// Reads that; the layers are those that the tensors beside it are for.
[[nodiscard]] LoraOptions read_adapter_options(const std::filesystem::path& folder);

// Whether the model scores in place of predicting tokens.
[[nodiscard]] bool has_score(const ParameterTable& parameters);

// The text of an adapter_config.json. `base_model` is the name or path of the model underneath.
[[nodiscard]] std::string adapter_config_json(const ParameterTable& parameters, const LoraOptions& lora,
                                              std::string_view base_model);

}  // namespace spillway
