// Checks from scratch that the micro-batches of a group stay apart: it does not trust repeat_by_block().
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace spillway {

// Returns every violation found, one sentence each; empty for a good graph. `inputs` are, by micro-batch, the batch
// values that it alone reads (one that no operation reads may stand in several lists). Nothing that depends on those of
// one micro-batch may reach another, except in sums of gradients, to which the micro-batches add in their order; and
// what depends on a sum (norms, updated weights) reaches none. Values of a micro-batch follow its axes, of which each
// micro-batch has as many.
[[nodiscard]] std::vector<std::string> verify_group(const Graph& graph, std::span<const std::vector<ValueId>> inputs);

}  // namespace spillway
