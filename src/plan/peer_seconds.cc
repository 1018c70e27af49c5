#include "plan/peer_seconds.h"

#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "graph/operation.h"

namespace spillway {
namespace {

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

// Returns what a rank sends where groups of `together` ranks, each on a host, add up their contributions first: to the
// others of its group their parts of its contribution, and the sums that it has added up to whoever has these parts.
PeerBytes bytes_by_groups(int64_t ranks, int64_t copies, int64_t together, double part) {
  const int64_t added = std::max<int64_t>(1, ranks / together);   // parts that a rank adds up
  const int64_t beside = std::max<int64_t>(1, together / ranks);  // ranks of a group that have the same part
  return {.inside = static_cast<double>(ranks - added + beside - 1) * part,
          .between = static_cast<double>(added * copies - beside) * part};
}

// Returns the bytes of the rows that a sum is of.
double summed_bytes(const Graph& graph, const Operation& op) {
  const ValueType& whole = graph.value(op.inputs[0]).type;
  return static_cast<double>(whole.bytes() / whole.shape[0] * op.attributes.integer("rows"));
}

// The exchanges of a collective that follow each other.
int64_t exchanges_of(const Attributes& attributes) {
  if (attributes.integer_or("together", 1) > 1) return 2;
  return 2 * attributes.integer_or("copies", 1) - 1;
}

}  // namespace

PeerBytes peer_bytes(const Graph& graph, OpId id, const Machine& machine) {
  const Operation& op = graph.op(id);
  const double sent = cost_of(graph, id).sent_bytes;
  if (sent <= 0) return {};
  const int64_t group = op.attributes.integer("ranks");
  const bool is_gather = op.def->held == Held::kWhole;
  const int64_t copies = op.attributes.integer_or("copies", 1), together = op.attributes.integer_or("together", 1);
  if (together > 1)
    return bytes_by_groups(group, copies, together, summed_bytes(graph, op) / static_cast<double>(group));
  // Every group of ranks with copies of a sum hands its parts on.
  const double handed = static_cast<double>(copies - 1) * static_cast<double>(graph.value(op.outputs[0]).type.bytes());
  PeerBytes bytes = bytes_of_group(group, (sent - handed) / static_cast<double>(group - 1), is_gather, machine);
  (group * copies > machine.ranks_on_host ? bytes.between : bytes.inside) += handed;
  return bytes;
}

double peer_seconds(const Graph& graph, OpId id, const Machine& machine) {
  if (cost_of(graph, id).sent_bytes <= 0) return machine.operation_seconds;
  const PeerBytes bytes = peer_bytes(graph, id, machine);
  const double known = nth(machine.link_bytes_per_second, Lane::kPeer),
               inside = known > 0 ? known : machine.memory_bytes_per_second;
  const double network = machine.peer_between_hosts_bytes_per_second, between = network > 0 ? network : inside;
  const auto exchanges = static_cast<double>(exchanges_of(graph.op(id).attributes));
  return machine.operation_seconds + exchanges * machine.peer_latency_seconds +
         std::max(bytes.inside / inside, bytes.between / between);
}

}  // namespace spillway
