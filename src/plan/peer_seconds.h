// The time that ranks take to exchange, within a host and between hosts.
#pragma once

#include "graph/graph.h"
#include "plan/machine.h"

namespace spillway {

// Returns the seconds of a collective of the graph between ranks that are machine.ranks_on_host neighbours a host. The
// ways inside and between hosts are busy at the same time. Sums are exchanged directly, as their order has it: each
// rank sends its contribution to every other. NCCL gathers with every byte going to each host once, through the links
// of all its ranks; MPI sends directly. Without a known rate ranks reach each other as fast as their memory.
[[nodiscard]] double peer_seconds(const Graph& graph, OpId id, const Machine& machine);

}  // namespace spillway
