// The LoRA options that a config asks for.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "model/lora.h"
#include "model/model.h"

namespace spillway::train {

// Returns the options of a fresh adapter, or those of lora_model_dir, which override the config: for each key that
// differs it adds a line to `notes`. Changes the model if the adapter trains its embedding or head. Throws InputError
// for modules, layers and patterns that the model does not have.
[[nodiscard]] LoraOptions lora_options(const config::AdapterSettings& adapter, ModelPtr& model,
                                       std::vector<std::string>& notes);

}  // namespace spillway::train
