#include "graph/recompute.h"

#include <algorithm>

#include "base/index.h"

namespace spillway {

std::vector<bool> recomputable_values(const Graph& graph) {
  std::vector<bool> result(graph.values.size(), false);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.producer == kNone || value.block == kNone || value.updates != kNone) continue;
    result[i] = graph.section_of(value.producer).recomputable;
  }
  for (const Operation& op : graph.ops) {
    if (!graph.section_of(op).recomputable) continue;
    for (const ValueId v : op.inputs) {
      if (v != kNone && graph.value(v).block != op.block) nth(result, v) = false;
    }
  }
  for (const ValueId v : graph.results) nth(result, v) = false;
  return result;
}

std::vector<OpId> last_backward_reads(const Graph& graph, OpId end) {
  const std::vector<bool> recomputable = recomputable_values(graph);
  std::vector<OpId> last(graph.values.size(), kNone);
  const auto read = [&](const Operation& op, OpId when) {
    for (const ValueId v : op.inputs) {
      if (v != kNone) nth(last, v) = std::max(nth(last, v), when);
    }
  };
  // From the end, so that all readers of a forward operation's outputs have been seen when it is reached.
  for (OpId id = end; id-- > 0;) {
    const Operation& op = graph.op(id);
    const Section& section = graph.section_of(op);
    if (section.repeats != Repeats::kMicroBatch) continue;
    if (!section.recomputable) {
      read(op, id);
      continue;
    }
    OpId again = kNone;
    for (const ValueId v : op.outputs) {
      if (nth(recomputable, v)) again = std::max(again, nth(last, v));
    }
    read(op, again);
  }
  return last;
}

}  // namespace spillway
