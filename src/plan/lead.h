// Chooses when transfers begin that run ahead of their readers.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/choices.h"
#include "plan/cost_model.h"
#include "plan/facts.h"
#include "plan/sequence.h"

namespace spillway {

// Returns the lead of a transfer that takes so many seconds over what the rate of its lane asks for: a share of them,
// and a millisecond.
[[nodiscard]] constexpr double lead_seconds(double seconds) { return 0.5 * seconds + 1e-3; }

// Returns when each execution of [begin, end) would start if nothing waited, from 0, and when the last would end.
// Collectives take no time, since they run beside all else.
[[nodiscard]] std::vector<double> execution_starts(const GraphFacts& facts, const Placement& placement,
                                                   const CostModel& costs, const Sequence& sequence, int32_t begin,
                                                   int32_t end);

}  // namespace spillway
