// `deepspeed:`, a path, JSON text or a section: what it asks for, as settings of ours.
//
// `cpu` is the host tier and `nvme` the disk tier with its `nvme_path`. offload_param moves all weights of blocks, as
// in DeepSpeed; offload_optimizer takes the gradients along where gradient_offload says nothing.
#pragma once

#include <vector>

#include "config/load.h"
#include "config/settings.h"

namespace spillway::config {

// Merges the section into the settings, and what it leaves to the plan into `loaded`. Does nothing without a section.
// Unknown keys and values that contradict the settings are wrong; throws InputError for a file that cannot be read and
// for keys that contradict each other.
void merge_deepspeed(std::vector<Setting>& settings, LoadedConfig& loaded, Verdicts& verdicts);

}  // namespace spillway::config
