// `parallelism_config:`, accelerate's sizes of the groups of ranks that split something, as settings of ours.
#pragma once

#include <vector>

#include "config/load.h"
#include "config/settings.h"

namespace spillway::config {

// Adds the sizes that the section gives to the settings, and a verdict on each of its keys to `verdicts`.
void merge_parallelism(std::vector<Setting>& settings, const LoadedConfig& loaded, Verdicts& verdicts);

}  // namespace spillway::config
