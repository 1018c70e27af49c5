// What a single key cannot know: required keys, keys that exclude each other, and the values that follow from others.
#pragma once

#include "config/load.h"

namespace spillway::config {

// Fills in what follows from other keys (max_length, batch_size, dataset_name, ...) and throws InputError for
// combinations that cannot be meant.
void complete_config(LoadedConfig& loaded, ConfigUse use);

}  // namespace spillway::config
