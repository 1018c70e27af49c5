// Counts the bytes that a program moves between tiers in one step, by lane and kind of value.
#pragma once

#include <array>
#include <cstdint>

#include "plan/plan_context.h"
#include "plan/usage.h"

namespace spillway {

using MovedBytes = std::array<ClassBytes, kLanes>;

// Counts all tokens in every micro-batch; a shorter stream moves less.
[[nodiscard]] MovedBytes moved_bytes(const Graph& graph, const Program& program, const PlanContext& context);

}  // namespace spillway
