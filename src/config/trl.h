// Configs that were written for `trl sft`: what they leave out has TRL's defaults.
#pragma once

#include "config/load.h"

namespace spillway::config {

// Whether a config names its data as TRL's do: by `dataset_name`, or, beside `model_name_or_path`, by entries of
// `datasets` that say nothing of a type.
[[nodiscard]] bool is_trl_config(const LoadedConfig& loaded);

// Gives the keys that such a config leaves out TRL's defaults where axolotl's are others. Three stay as they are:
// gradient_checkpointing is the plan's choice, eval_strategy counts only with rows that axolotl's keys name, and
// per_device_eval_batch_size is no more than that of training.
void take_trl_defaults(LoadedConfig& loaded);

// TRL's switch for adapters, `use_peft`, is `adapter: lora` with TRL's rank, alpha and dropout.
void take_peft_defaults(LoadedConfig& loaded);

}  // namespace spillway::config
