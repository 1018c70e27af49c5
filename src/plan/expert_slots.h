// The number of experts of a mixture that a plan has on the device at once.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/schedule.h"

namespace spillway {

// Returns, by block, the number of experts of which some weight is on the device at the same time, at most: all of them
// where they live there, else as many as the window is wide through which they pass. 0 for a block without experts.
[[nodiscard]] std::vector<int64_t> expert_slots(const Graph& graph, const Schedule& schedule);

}  // namespace spillway
