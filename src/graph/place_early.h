// Moves operations to where what they need is ready, so that what they read can die there.
#pragma once

#include "graph/graph.h"

namespace spillway {

// Moves each of the operations [first, end), which are the last of their section, up within the
// section: right behind the last operation that it must follow, which is whoever produces what it reads, and, where an
// output takes a persistent value's place, whoever reads that value before, under any plan (last_backward_reads).
// Operations that end up in the same place keep their order. Ids of operations change, values and their ids stay.
void place_early(Graph& graph, OpId first, OpId end);

}  // namespace spillway
