// The layers, tensors and weights of a model that a LoRA adapter's names mean.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/lora.h"
#include "model/parameters.h"

namespace spillway {

// Returns the last part of a path, the kind of a layer: "q_proj".
[[nodiscard]] inline std::string_view last_name(std::string_view path) { return path.substr(path.rfind('.') + 1); }

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

// Returns the names for an adapter_config.json: "q_proj" for each kind of layer that is adapted in every block; whole
// names where some block differs, and where the model has other parts, whose layers PEFT would adapt, too.
[[nodiscard]] std::set<std::string> target_names(const ParameterTable& parameters, const LoraOptions& lora);

}  // namespace spillway
