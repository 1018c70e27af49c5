// The bytes that ranks exchange, and the time that it takes, within a host and between hosts.
#pragma once

#include "graph/graph.h"
#include "plan/machine.h"

namespace spillway {

// The bytes that a rank sends to others.
struct PeerBytes {
  double inside = 0, between = 0;  // its host; hosts
};

// Returns what a rank sends in a collective of the graph, where ranks are machine.ranks_on_host neighbours a host. Sums
// are exchanged directly, as their order has it: each rank sends its contribution to every other; or each host's ranks
// add up theirs first (FoldOrder::together). NCCL gathers with every byte going to each host once, through the links of
// all its ranks; MPI sends directly.
[[nodiscard]] PeerBytes peer_bytes(const Graph& graph, OpId id, const Machine& machine);

// Returns the seconds of that collective. The ways inside and between hosts are busy at the same time. Without a known
// rate ranks reach each other as fast as their memory.
[[nodiscard]] double peer_seconds(const Graph& graph, OpId id, const Machine& machine);

}  // namespace spillway
