#include "runtime/stream_size.h"

#include <algorithm>

#include "graph/repeat_by_block.h"

namespace spillway {
namespace {

Cost cost_with(const Graph& graph, const Operation& op, int64_t tokens) {
  const CutTypes inputs(graph, op.inputs, tokens), outputs(graph, op.outputs, tokens);
  return op.def->cost(inputs.list(), outputs.list(), op.attributes);
}

}  // namespace

int64_t rows_with(const Graph& graph, AxisId axis, int64_t tokens) {
  const AxisId first = axis_of_first(graph, axis);
  if (first == kTokenAxis) return tokens;
  return first != kNoAxis && graph.axis(first).of == kTokenAxis ? rows_of(graph.axis(first), tokens) : -1;
}

CutTypes::CutTypes(const Graph& graph, std::span<const ValueId> values, int64_t tokens) {
  types_.reserve(values.size());  // which pointers_ needs
  for (const ValueId id : values) {
    if (id == kNone) {
      pointers_.push_back(nullptr);
      continue;
    }
    ValueType& type = types_.emplace_back(graph.value(id).type);
    if (const int64_t rows = rows_with(graph, type.axis, tokens); rows >= 0) type.shape.set(0, rows);
    pointers_.push_back(&type);
  }
}

double work_share(const Graph& graph, OpId op, int64_t tokens) {
  const Cost whole = cost_of(graph, op);
  if (whole.matrix_product && whole.flops > 0) return cost_with(graph, graph.op(op), tokens).flops / whole.flops;
  return static_cast<double>(tokens) / static_cast<double>(graph.tokens());
}

int64_t smaller_stream(int64_t tokens, int64_t sequence_len) {
  const int64_t half = tokens / 2, whole = sequence_len > 0 ? half / sequence_len * sequence_len : 0;
  return std::min(tokens, std::max(whole > 0 ? whole : half, kMinTokens));
}

}  // namespace spillway
