#include "graph/operation.h"

#include "base/error.h"

namespace spillway {
namespace {

// Borrowed types of a list of values; REQUIRES: the graph does not change meanwhile.
struct Types {
  std::vector<const ValueType*> list;
  Types(const Graph& graph, const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) list.push_back(id == kNone ? nullptr : &graph.value(id).type);
  }
};

}  // namespace

Cost cost_of(const Graph& graph, OpId id) {
  const Operation& op = graph.op(id);
  SPILLWAY_CHECK(op.def->cost, "{} has no cost", op.def->name);
  return op.def->cost(Types(graph, op.inputs).list, Types(graph, op.outputs).list, op.attributes);
}

int64_t workspace_of(const Graph& graph, OpId id, int threads) {
  const Operation& op = graph.op(id);
  if (!op.def->workspace_bytes) return 0;
  return op.def->workspace_bytes(Types(graph, op.inputs).list, Types(graph, op.outputs).list, op.attributes, threads);
}

}  // namespace spillway
