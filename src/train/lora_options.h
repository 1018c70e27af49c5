// The adapter that a config asks for, on a model.
#pragma once

#include "config/config.h"
#include "model/lora.h"
#include "model/model.h"

namespace spillway::train {

// A fresh adapter, or that of lora_model_dir. Changes the model where the adapter trains its embedding or head. Throws
// InputError for modules, layers and patterns that the model does not have, and for keys that contradict
// lora_model_dir.
[[nodiscard]] LoraOptions lora_options(const config::AdapterSettings& adapter, ModelPtr& model);

}  // namespace spillway::train
