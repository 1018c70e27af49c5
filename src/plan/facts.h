// The facts about a graph's values and operations that every plan needs, computed once and laid side by side: a search
// reads them millions of times, and in the graph they are far apart in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index.h"
#include "graph/graph.h"
#include "graph/operation.h"
#include "plan/budget.h"
#include "plan/operand_lists.h"

namespace spillway {

struct ValueFacts {
  int64_t bytes = 0;
  ValueId storage = kNone;  // the persistent value whose place it takes, else itself
  OpId producer = kNone;
  BlockId block = kNone;
  GroupId group = kNone;  // of its storage
  // For a saved activation its block: the one whose operation makes it, or, if it has none (the embedding), the first
  // block that reads it. kNone for every other value.
  BlockId saved_block = kNone;
  SavedGroup saved_group = SavedGroup::kElementwise;
  int32_t parts = 1;  // the number of values that it stands for; 0 for one that another stands for (plan/bundles.h)
  ValueKind kind = ValueKind::kActivation;
  bool persistent = false;  // it or its storage

  [[nodiscard]] bool given() const { return producer == kNone; }
};

struct OpFacts {
  SectionId section = 0;
  BlockId block = kNone;
  OperandRange operands;              // in GraphFacts::operands
  int64_t workspace_bytes = 0;        // of the machine's kernel
  std::span<const InPlace> in_place;  // as in its definition
  RecomputeCost recompute_cost = RecomputeCost::kElementwise;
  ValueId table = kNone;    // the value from which it reads only rows
  ValueId expert = kNone;   // the first value of kExpertPart that it reads
  double guard_chance = 1;  // that it reads the first of its inputs with a condition (OpDef::guard), if it has any
  int32_t parts = 1;        // as those of a value
  bool collective = false;  // all ranks execute it together
};

// Returns the lane on which an operation runs whose operands are in that tier.
[[nodiscard]] inline Lane lane_of(const OpFacts& op, Tier site) {
  if (op.collective) return Lane::kPeer;
  return site == Tier::kHost ? Lane::kHostCompute : Lane::kCompute;
}

struct GraphFacts {
  std::vector<ValueFacts> values;
  std::vector<OpFacts> ops;
  OperandLists<ValueId> operands;  // kNone where one is absent

  [[nodiscard]] const ValueFacts& value(ValueId id) const { return nth(values, id); }
  [[nodiscard]] const OpFacts& op(OpId id) const { return nth(ops, id); }
  [[nodiscard]] std::span<const ValueId> inputs(const OpFacts& op) const { return operands.inputs(op.operands); }
  [[nodiscard]] std::span<const ValueId> outputs(const OpFacts& op) const { return operands.outputs(op.operands); }
};

// Collects the facts, without workspaces. The graph must outlive them.
[[nodiscard]] GraphFacts facts_of(const Graph& graph);

}  // namespace spillway
