#include "plan/facts.h"

#include <optional>

#include "base/sizes.h"
#include "graph/experts.h"
#include "graph/recompute.h"

namespace spillway {
namespace {

SavedGroup group_of_producer(const Graph& graph, OpId producer) {
  switch (graph.op(producer).def->recompute_cost) {
    case RecomputeCost::kAttention:
      return SavedGroup::kAttention;
    case RecomputeCost::kProduct:
      return SavedGroup::kProduct;
    case RecomputeCost::kElementwise:
      break;
  }
  return SavedGroup::kElementwise;
}

std::vector<ValueFacts> value_facts_of(const Graph& graph) {
  const std::vector<bool> recomputable = recomputable_values(graph);
  std::vector<ValueFacts> result(graph.values.size());
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    const auto id = static_cast<ValueId>(i);
    const ValueId root = graph.persistent_root(id);
    result[i] = {.bytes = value.type.bytes(),
                 .storage = root == kNone ? id : root,
                 .producer = value.producer,
                 .block = value.block,
                 .group = root == kNone ? value.group : graph.value(root).group,
                 .kind = value.kind,
                 .persistent = root != kNone};
    if (!recomputable[i]) continue;
    result[i].saved_block = value.block;
    result[i].saved_group = group_of_producer(graph, value.producer);
  }
  // A block also saves values that such a section makes and that are not recomputable: they cross blocks.
  for (const Operation& op : graph.ops) {
    if (!graph.section_of(op).recomputable) continue;
    for (const ValueId v : op.inputs) {
      if (v == kNone || nth(recomputable, v)) continue;
      const Value& value = graph.value(v);
      ValueFacts& facts = nth(result, v);
      if (value.producer == kNone || value.updates != kNone || facts.saved_block != kNone) continue;
      facts.saved_block = value.block != kNone ? value.block : op.block;
      facts.saved_group = SavedGroup::kBoundary;
    }
  }
  for (const ValueId v : graph.results) nth(result, v).saved_block = kNone;
  return result;
}

}  // namespace

GraphFacts facts_of(const Graph& graph) {
  GraphFacts facts{.values = value_facts_of(graph)};
  for (const Operation& op : graph.ops) {
    OpFacts one{.section = op.section,
                .block = op.block,
                .operands = facts.operands.add(op.inputs, op.outputs),
                .in_place = op.def->in_place,
                .recompute_cost = op.def->recompute_cost,
                .expert = first_expert(graph, op),
                .collective = op.def->collective != nullptr};
    for (int i = 0; op.def->guard && i < std::ssize(op.inputs); ++i) {
      const std::optional<Guard> guard = guard_of(graph, narrow<OpId>(facts.ops.size()), i);
      if (!guard) continue;
      one.guard_chance = guard->chance;
      break;
    }
    if (op.def->table_input >= 0) one.table = facts.value(nth(op.inputs, op.def->table_input)).storage;
    facts.ops.push_back(one);
  }
  return facts;
}

}  // namespace spillway
