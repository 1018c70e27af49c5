// Checks from scratch that a Graph is well formed: it trusts neither Builder nor autodiff.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace spillway {

// Returns every violation found, one sentence each; empty for a good graph. Checked: ids in range; single assignment
// (each produced value has exactly one producer, which stands before all readers); types equal to those that the
// operation infers; sections in order; unique names; updates that go to an earlier, persistent value of the same type,
// form a chain, and after which no operation reads the previous version, not even a forward operation that is run again
// for the backward pass; results that operations produce; parts that only collectives make whole, and other collectives
// only in sections that every rank runs once.
[[nodiscard]] std::vector<std::string> verify(const Graph& graph);

}  // namespace spillway
