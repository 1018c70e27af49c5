#include "runtime/stream_size.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "graph/operation.h"
#include "graph/repeat_by_block.h"

namespace spillway {
namespace {

Cost cost_with(const Graph& graph, const Operation& op, int64_t tokens) {
  std::deque<ValueType> cut;
  const auto types_of = [&](const std::vector<ValueId>& values) {
    std::vector<const ValueType*> types;
    for (const ValueId id : values) {
      if (id == kNone) {
        types.push_back(nullptr);
        continue;
      }
      ValueType& type = cut.emplace_back(graph.value(id).type);
      if (axis_of_first(graph, type.axis) == kTokenAxis) type.shape.set(0, tokens);
      types.push_back(&type);
    }
    return types;
  };
  const std::vector<const ValueType*> inputs = types_of(op.inputs), outputs = types_of(op.outputs);
  return op.def->cost(inputs, outputs, op.attributes);
}

}  // namespace

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
