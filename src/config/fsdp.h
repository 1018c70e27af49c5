// `fsdp:` and `fsdp_config:`, as settings of ours. They shard over ranks, and on one rank there is nothing to shard;
// what is left is the offload flag (weights, gradients and the optimizer on the CPU) and activation checkpointing.
#pragma once

#include <vector>

#include "config/load.h"
#include "config/settings.h"

namespace spillway::config {

// Does nothing without either key. Unknown keys and values that contradict the settings are wrong; throws InputError
// for unknown words and a `deepspeed:` beside them.
void merge_fsdp(std::vector<Setting>& settings, LoadedConfig& loaded, Verdicts& verdicts);

}  // namespace spillway::config
