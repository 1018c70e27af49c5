#include "plan/signature.h"

#include "graph/operation.h"

namespace spillway {
namespace {

std::string type_text(const Graph& graph, ValueId id) { return id == kNone ? "-" : to_string(graph.value(id).type); }

std::string list_text(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (size_t i = 0; i < values.size();) {
    const std::string type = type_text(graph, values[i]);
    const size_t first = i;
    while (i < values.size() && type_text(graph, values[i]) == type) ++i;
    text += fmt::format("{}{}", first == 0 ? "" : ", ", type);
    if (i - first > 1) text += fmt::format(" x {}", i - first);
  }
  return text;
}

}  // namespace

std::string signature_of(const Graph& graph, OpId id) {
  const Operation& op = graph.op(id);
  std::string text =
      fmt::format("{}({}) -> {}", op.def->name, list_text(graph, op.inputs), list_text(graph, op.outputs));
  // Neither the stream of random numbers nor the rows of a weight that it updates change its time.
  for (const auto& [name, number] : op.attributes.entries()) {
    if (name != "stream" && name != "first_row") text += " " + to_string(Attributes{{name, number}});
  }
  return text;
}

}  // namespace spillway
