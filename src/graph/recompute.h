// Finds the values that a plan may recompute for the backward pass, and until when: the graph's side of recomputation,
// so that changes to a graph are right under every plan.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace spillway {

// Returns, by value, whether a plan may drop it after the forward pass and run its producer again. These are the
// outputs of a block's forward operations, except those that other blocks' forward operations read too (the block's
// output), next versions of persistent values, and results.
[[nodiscard]] std::vector<bool> recomputable_values(const Graph& graph);

// Returns, by value, the last backward operation before `end` that reads it under some plan, either directly or through
// forward operations that are run again for it; kNone if there is none. Until then a persistent value must stay as it
// is.
[[nodiscard]] std::vector<OpId> last_backward_reads(const Graph& graph, OpId end);

}  // namespace spillway
