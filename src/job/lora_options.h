// The adapter that a config asks for, on a model.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "model/lora.h"
#include "model/model.h"

namespace spillway::train {

// A fresh adapter, or that of lora_model_dir. Changes the model where the adapter trains its embedding or head. Throws
// InputError for modules, layers and patterns that the model does not have. What the adapter of lora_model_dir says
// holds; for each key that says something else a line is added to `notes`.
[[nodiscard]] LoraOptions lora_options(const config::AdapterSettings& adapter, ModelPtr& model,
                                       std::vector<std::string>& notes);

}  // namespace spillway::train
