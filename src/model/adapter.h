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

// Returns the modules of the linear layers that `lora` adapts, in the order of the model, and then the tensors of its
// mixtures. Throws InputError at `where` (a config key or a file) for a target that is not a linear layer of these
// parameters.
[[nodiscard]] std::vector<std::string> lora_targets(const ParameterTable& parameters, const LoraOptions& lora,
                                                    std::string_view where);

// Throws InputError at `where` for target_parameters that the model does not have, a rank above their sizes, and what
// factors of mixtures cannot have, as in PEFT: dropout, DoRA, a start from the weights.
void check_target_tensors(const ParameterTable& parameters, const LoraOptions& lora, std::string_view where);

// Replaces names of modules by those of tensors as PEFT does, for mixtures of which transformers 5 has the experts in
// tensors: of projections of single experts, whose gate and up are one tensor of twice the rank, and of routers; all of
// them, where there are no names, which mean all linear layers. Returns the tensors that stand for two of the names.
// Throws InputError at `where` for one of two such names alone.
std::set<std::string, std::less<>> name_tensors(const ParameterTable& parameters, LoraOptions& lora,
                                                std::string_view where);

// Returns the names of the weights of `modules_to_save`, in the order of the model. Throws InputError at `where` for a
// module that no path ends in, and for a linear layer that also has factors.
[[nodiscard]] std::vector<std::string> saved_weights(const ParameterTable& parameters, const LoraOptions& lora,
                                                     std::string_view where);

// Returns the model with a separate head if the adapter trains embedding or head in full, even if the files tie the
// two: PEFT trains a copy. Otherwise returns the same model.
[[nodiscard]] ModelPtr untie_head(ModelPtr model, const LoraOptions& lora);

// The same for an adapter in a folder, whose embedding may also have more rows than the model's files, and which may
// have a score: then the model gets that score. Throws InputError for a score beside a model that reads no text.
[[nodiscard]] ModelPtr fit_to_adapter(ModelPtr model, const LoraOptions& lora, const std::filesystem::path& folder);

// Returns a stable number for a name (FNV-1a), the key of its random stream.
[[nodiscard]] uint64_t random_stream_of(std::string_view name);

// Fills elements [first_elem, first_elem + a.size()) of A as PEFT initialises it, uniform in +-1/sqrt(in_features); B
// starts at zero. The numbers depend only on the seed, the module's name and their place in A. REQUIRES: kLoraA.
void initialise_lora_a(std::span<float> a, int64_t first_elem, const Parameter& factor, uint64_t seed);

// The same with normal numbers: for PEFT's "gaussian" start of A, with a deviation of 1/r, and for a new score.
void initialise_normal(std::span<float> values, int64_t first_elem, const Parameter& parameter, double deviation,
                       uint64_t seed);

// The same with uniform numbers from `low` to `high`.
void initialise_uniform(std::span<float> values, int64_t first_elem, const Parameter& parameter, double low,
                        double high, uint64_t seed);

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
