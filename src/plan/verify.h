// Replays a Program byte by byte and reports what would go wrong. It shares no code with the planner and trusts nothing
// but the Graph: not lifetimes, not the order in which a plan was made.
//
// Checked: every operation runs exactly once in its section, on the operands that the graph names; every read finds the
// whole value it expects, written earlier and not overwritten since, in a first and in a later micro-batch and step;
// operands of one instruction overlap only where the operation allows in-place; whatever touches the same bytes on two
// lanes is ordered by waits, unless both only read; copies go along their lane, those from and to the scratch file in
// whole blocks; what a copy with a guard brings is read by operations with the same guard alone; operations compute on
// the memory of their lane; collectives run on the lane `peer` in the graph's order; every place is inside its arena,
// every arena inside its budget; nothing writes to the user's files; persistent values are at home, in their last
// version, when a section ends; results are where the program says.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/budget.h"
#include "plan/program.h"

namespace spillway {

// Returns every violation found, one sentence each; empty for a good program. REQUIRES: verify(graph) is empty.
[[nodiscard]] std::vector<std::string> verify(const Graph& graph, const Program& program, const Budget& budget = {});

// Returns the violations for two programs that share memory: each persistent value of the first must have its home in
// the same place in the other, too. Each must be verified alone as well.
[[nodiscard]] std::vector<std::string> verify_shared_homes(const Graph& first_graph, const Program& first,
                                                           const Graph& graph, const Program& program);

}  // namespace spillway
