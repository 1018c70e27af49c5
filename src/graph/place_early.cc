#include "graph/place_early.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "graph/recompute.h"

namespace spillway {
namespace {

// Reorders the operations of a graph: order[i] is the present id of the operation that will have id i.
void reorder(Graph& graph, const std::vector<OpId>& order) {
  std::vector<OpId> new_ids(order.size());
  std::vector<Operation> ops;
  ops.reserve(order.size());
  for (const OpId id : order) {
    nth(new_ids, id) = static_cast<OpId>(ops.size());
    ops.push_back(std::move(nth(graph.ops, id)));
  }
  graph.ops = std::move(ops);
  for (Value& value : graph.values) {
    if (value.producer != kNone) value.producer = nth(new_ids, value.producer);
  }
}

}  // namespace

void place_early(Graph& graph, OpId first, OpId end) {
  SPILLWAY_CHECK(end == static_cast<OpId>(graph.ops.size()) || graph.op(end).section != graph.op(first).section,
                 "operation {} follows in the same section", end);
  const SectionId section = graph.op(first).section;
  OpId section_begin = first;
  while (section_begin > 0 && graph.op(section_begin - 1).section == section) --section_begin;

  // By operation: the operation that it is placed right behind; itself if it does not move.
  std::vector<OpId> behind(graph.ops.size());
  std::iota(behind.begin(), behind.end(), 0);
  // By value: its last reader among the operations that do not move, then among those already placed as well.
  std::vector<OpId> last_reads = last_backward_reads(graph, first);
  for (OpId id = first; id < end; ++id) {
    const Operation& op = graph.op(id);
    SPILLWAY_CHECK(op.section == section, "operation {} is in another section than {}", id, first);
    OpId place = section_begin - 1;
    for (const ValueId v : op.inputs) {
      const OpId producer = v == kNone ? kNone : graph.value(v).producer;
      if (producer != kNone) place = std::max(place, nth(behind, producer));
    }
    for (const ValueId v : op.outputs) {
      const ValueId replaced = graph.value(v).updates;
      if (replaced != kNone) place = std::max(place, nth(last_reads, replaced));
    }
    for (const ValueId v : op.inputs) {
      if (v != kNone) nth(last_reads, v) = std::max(nth(last_reads, v), place);
    }
    nth(behind, id) = place;
  }

  std::vector<OpId> order(graph.ops.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](OpId a, OpId b) { return nth(behind, a) < nth(behind, b); });
  reorder(graph, order);
}

}  // namespace spillway
