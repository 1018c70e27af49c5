#include "graph/print.h"

#include <fmt/format.h>

#include "graph/operation.h"

namespace spillway {

std::string print_operation(const Graph& graph, OpId id) {
  const Operation& op = graph.op(id);
  std::string text;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const Value& output = graph.value(op.outputs[i]);
    text += fmt::format("{}{} {}", i ? ", " : "", output.name, to_string(output.type));
    if (output.updates != kNone) text += fmt::format(" -> {}", graph.value(output.updates).name);
  }
  text += fmt::format(" = {}(", op.def->name);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    text += fmt::format("{}{}", i ? ", " : "", op.inputs[i] == kNone ? "-" : graph.value(op.inputs[i]).name);
  }
  if (!op.attributes.entries().empty()) text += "; " + to_string(op.attributes);
  return text + ")";
}

std::string print(const Graph& graph) {
  std::string text = fmt::format("graph {}: {} tokens\n", graph.name, graph.tokens);
  for (const Value& value : graph.values) {
    if (value.producer == kNone)
      text += fmt::format("  {} {} {}\n", name_of(value.kind), value.name, to_string(value.type));
  }
  const Operation* previous = nullptr;
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    const Operation& op = graph.op(id);
    if (!previous || previous->phase != op.phase) text += fmt::format("{}\n", name_of(op.phase));
    if (op.block != kNone && (!previous || previous->block != op.block || previous->phase != op.phase)) {
      text += fmt::format("  {}\n", graph.blocks[static_cast<size_t>(op.block)].name);
    }
    text += fmt::format("{}{}\n", op.block == kNone ? "  " : "    ", print_operation(graph, id));
    previous = &op;
  }
  for (const ValueId id : graph.results) text += fmt::format("result {}\n", graph.value(id).name);
  return text;
}

}  // namespace spillway
