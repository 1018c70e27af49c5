// Makes plans with random choices, for tests.
#pragma once

#include "base/random.h"
#include "plan/planner.h"

namespace spillway::testing {

// Returns choices that place every kind of value in any tier that the kind allows.
[[nodiscard]] Choices random_choices(const Graph& graph, RandomStream& random);

// Returns the plan for such choices, with about half of the frozen weights in the user's files if they live on disk.
[[nodiscard]] Plan random_plan(const Graph& graph, RandomStream& random);

}  // namespace spillway::testing
