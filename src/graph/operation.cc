#include "graph/operation.h"

#include "base/error.h"

namespace spillway {
namespace {

// The types of a list of values, borrowed; REQUIRES: the graph does not change meanwhile.
struct Types {
  std::vector<const ValueType*> list;
  Types(const Graph& graph, const std::vector<ValueId>& ids) {
    for (const ValueId id : ids) list.push_back(id == kNone ? nullptr : &graph.value(id).type);
  }
};

}  // namespace

std::string_view name_of(DeviceKind kind) { return kind == DeviceKind::kCpu ? "cpu" : "cuda"; }

bool may_run_again(const OpDef& def) {
  return def.collective == nullptr || def.held == Held::kWhole || def.held == Held::kOwn;
}

bool may_run_on_host(const Graph& graph, OpId id) {
  return graph.section_of(id).repeats == Repeats::kStep || graph.op(id).def->table_input >= 0;
}

Cost cost_of(const Graph& graph, OpId id) {
  const Operation& op = graph.op(id);
  SPILLWAY_CHECK(op.def->cost, "{} has no cost", op.def->name);
  return op.def->cost(Types(graph, op.inputs).list, Types(graph, op.outputs).list, op.attributes);
}

std::optional<Guard> guard_of(const Graph& graph, OpId id, int input) {
  const Operation& op = graph.op(id);
  if (!op.def->guard) return std::nullopt;
  return op.def->guard(Types(graph, op.inputs).list, op.attributes, input);
}

int64_t workspace_of(const Graph& graph, OpId id, int threads, DeviceKind kind) {
  const Operation& op = graph.op(id);
  const Types inputs(graph, op.inputs), outputs(graph, op.outputs);
  if (kind == DeviceKind::kCuda) {
    if (op.def->cuda_workspace_bytes) return op.def->cuda_workspace_bytes(inputs.list, outputs.list, op.attributes);
    threads = 1;
  }
  return op.def->workspace_bytes ? op.def->workspace_bytes(inputs.list, outputs.list, op.attributes, threads) : 0;
}

}  // namespace spillway
