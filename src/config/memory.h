// Budgets in the words of axolotl and accelerate.
#pragma once

#include "config/load.h"

namespace spillway::config {

// Makes gpu_memory_limit and max_memory the budgets of `memory`. Throws InputError where they and a budget say
// different things, naming both, and for what is no size.
void complete_memory(LoadedConfig& loaded);

}  // namespace spillway::config
