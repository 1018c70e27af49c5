// The planned memory of a tier over one step by kind of value, with few enough points to draw.
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

// Returns at most `points` points. Each stands for a range of steps and shows the one that needs the most, so that the
// peak is exact. REQUIRES: points > 0.
[[nodiscard]] MemoryCurve memory_over_step(const Graph& graph, const Schedule& schedule, Tier tier, size_t points);

}  // namespace spillway
