// Experts that come for one use (kExpertPart), and operations that read them.
#pragma once

#include "graph/graph.h"

namespace spillway {

// Returns true if the value is of an expert's weights or of their gradients and state.
[[nodiscard]] bool is_of_expert(const Graph& graph, ValueId value);
// Returns the first value of kExpertPart that the operation reads, or kNone.
[[nodiscard]] ValueId first_expert(const Graph& graph, const Operation& op);

}  // namespace spillway
