#include "plan/peer_seconds.h"

#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "graph/operation.h"

namespace spillway {
namespace {

// The bytes that a rank sends.
struct PeerBytes {
  double inside = 0, between = 0;  // its host; hosts
};

// Returns what a rank of a group sends of a tensor, in whose exchange every rank sends `part` bytes to each other one.
PeerBytes bytes_of_group(int64_t group, double part, bool is_gather, const Machine& machine) {
  // Neighbours of a group that are on one host, wherever the group begins.
  const int64_t together = std::gcd(group, machine.ranks_on_host);
  const auto others = static_cast<double>(group - together) * part;  // of a part, to or from other hosts
  if (!is_gather || machine.device == DeviceKind::kCpu)
    return {.inside = static_cast<double>(together - 1) * part, .between = others};
  return {.inside = together > 1 ? static_cast<double>(group - 1) * part : 0,
          .between = others / static_cast<double>(together)};
}

}  // namespace

double peer_seconds(const Graph& graph, OpId id, const Machine& machine) {
  const Operation& op = graph.op(id);
  const double sent = cost_of(graph, id).sent_bytes;
  if (sent <= 0) return machine.operation_seconds;
  const int64_t group = op.attributes.integer("ranks");
  const bool is_gather = op.def->held == Held::kWhole;
  const int64_t copies = op.attributes.integer_or("copies", 1);
  // Every group of ranks with copies of a sum hands its parts on.
  const double handed = static_cast<double>(copies - 1) * static_cast<double>(graph.value(op.outputs[0]).type.bytes());
  PeerBytes bytes = bytes_of_group(group, (sent - handed) / static_cast<double>(group - 1), is_gather, machine);
  (group * copies > machine.ranks_on_host ? bytes.between : bytes.inside) += handed;
  const double known = nth(machine.link_bytes_per_second, Lane::kPeer),
               inside = known > 0 ? known : machine.memory_bytes_per_second;
  const double network = machine.peer_between_hosts_bytes_per_second, between = network > 0 ? network : inside;
  const auto exchanges = static_cast<double>(2 * copies - 1);
  return machine.operation_seconds + exchanges * machine.peer_latency_seconds +
         std::max(bytes.inside / inside, bytes.between / between);
}

}  // namespace spillway
