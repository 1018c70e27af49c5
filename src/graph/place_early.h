// Moves operations up to where their inputs are ready, so that the values that they read can die there.
#pragma once

#include "graph/graph.h"

namespace spillway {

// Moves each of the operations [first, end), which are the last of their section, up within the section, to right
// behind the last operation that it must follow: those that produce its inputs and, if an output takes a persistent
// value's place, those that read that value's old content under any plan (last_backward_reads). Operations that end up
// in the same place keep their order. Ids of operations change, values and their ids stay.
void place_early(Graph& graph, OpId first, OpId end);

}  // namespace spillway
