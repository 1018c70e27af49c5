// How the planned memory of a tier goes up and down over one step, by kind of value, in few enough points to draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/usage.h"

namespace spillway {

struct MemoryCurve {
  std::vector<int32_t> steps;     // of the schedule, rising; the first is 0
  std::vector<ClassBytes> bytes;  // live from that step until the next point
};

// At most `points` points. Each stands for a run of steps, by the one of them that needs the most: the peak is exact.
// REQUIRES: points > 0.
[[nodiscard]] MemoryCurve memory_over_step(const Graph& graph, const Schedule& schedule, Tier tier, size_t points);

}  // namespace spillway
