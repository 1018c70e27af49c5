// Plans that make every choice at random.
#pragma once

#include "base/random.h"
#include "plan/planner.h"

namespace spillway::testing {

// Every value of every kind in any tier that its kind allows.
[[nodiscard]] Choices random_choices(const Graph& graph, RandomStream& random);

// The plan for such choices, with about half of the frozen weights in the user's files where they live on disk.
[[nodiscard]] Plan random_plan(const Graph& graph, RandomStream& random);

}  // namespace spillway::testing
