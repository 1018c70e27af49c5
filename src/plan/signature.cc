#include "plan/signature.h"

#include <algorithm>
#include <iterator>

#include "graph/operation.h"
#include "graph/repeat_by_block.h"

namespace spillway {
namespace {

std::string type_text(const Graph& graph, ValueId id) {
  if (id == kNone) return "-";
  ValueType type = graph.value(id).type;
  type.axis = axis_of_first(graph, type.axis);
  return to_string(type);
}

// Returns an attribute as text: an axis as that of the first micro-batch.
std::string attribute_text(const Graph& graph, std::string_view name, Attributes::Number number) {
  if (name == kAxisAttribute)
    number = static_cast<int64_t>(axis_of_first(graph, static_cast<AxisId>(std::get<int64_t>(number))));
  return to_string(Attributes{{name, number}});
}

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
  // Neither the stream of random numbers, nor the rows of a weight that it updates, nor which experts they are change
  // its time.
  constexpr std::string_view kWithoutEffect[] = {"stream", "first_row", "first_expert"};
  for (const auto& [name, number] : op.attributes.entries()) {
    const auto* const end = std::end(kWithoutEffect);
    if (std::find(std::begin(kWithoutEffect), end, name) == end) text += " " + attribute_text(graph, name, number);
  }
  return text;
}

}  // namespace spillway
