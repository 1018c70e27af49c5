// Configs that were written for another program: what they leave out has that program's defaults.
#pragma once

#include "config/load.h"

namespace spillway::config {

enum class Program { kAxolotl, kTrl, kFastVideo };

// The program whose config names its data in this way. FastVideo's has `data_path`. TRL's has `dataset_name`, or,
// beside `model_name_or_path`, entries of `datasets` that say nothing of a type. Any other is axolotl's.
[[nodiscard]] Program program_of(const LoadedConfig& loaded);

// Gives the keys that a config leaves out its program's defaults, where they are others than those of the table of
// keys. Of TRL's three stay as they are: gradient_checkpointing is the plan's choice, eval_strategy counts only with
// rows that axolotl's keys name, and per_device_eval_batch_size is no more than that of training.
void take_program_defaults(LoadedConfig& loaded);

// TRL's switch for adapters, `use_peft`, is `adapter: lora` with TRL's rank, alpha and dropout.
void take_peft_defaults(LoadedConfig& loaded);

}  // namespace spillway::config
