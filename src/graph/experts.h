// Operations that read experts which come for one use (kExpertPart).
#pragma once

#include "graph/graph.h"

namespace spillway {

// Returns the first value of kExpertPart that the operation reads, or kNone.
[[nodiscard]] ValueId first_expert(const Graph& graph, const Operation& op);

}  // namespace spillway
