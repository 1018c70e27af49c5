// Weights of which each rank has a part: the third stage of ZeRO.
#pragma once

#include <set>
#include <string>

#include "graph/graph.h"

namespace spillway::train {

// The names of weights.
using WeightNames = std::set<std::string, std::less<>>;

// Makes the weights of these names, which the graph reads whole, parts (tensor/cut.h). A section that reads one gathers
// it before its first reader. A backward section reads what the forward section before it has gathered: as all that a
// block saves, that is kept, or made again by another gather, as a plan likes. REQUIRES: ranks >= 2; no operation
// updates these weights yet.
void split_weights(Graph& graph, int ranks, const WeightNames& names);

}  // namespace spillway::train
