// The order of execution: the graph's operations, and those of recomputable sections once more in a later one, right
// before the first reader of a recomputed value; those that read the same experts in several micro-batches follow each
// other. Operations of an update that run on the device and on the host take turns, so that neither side, nor the
// values it has moved, waits behind a block of the other's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/choices.h"
#include "plan/operand_lists.h"

namespace spillway {

// One production of a value: index 2 * value for the graph's own, 2 * value + 1 for the recomputed one.
using Instance = int32_t;
[[nodiscard]] constexpr Instance original(ValueId value) { return 2 * value; }
[[nodiscard]] constexpr Instance recomputed(ValueId value) { return 2 * value + 1; }
// Returns the value of an instance; kNone for kNone.
[[nodiscard]] constexpr ValueId value_of(Instance instance) { return instance >> 1; }
// Returns true if it is neither recomputed nor kNone.
[[nodiscard]] constexpr bool is_original(Instance instance) { return instance >= 0 && instance % 2 == 0; }

struct Execution {
  OpId op = kNone;
  bool recompute = false;
  OperandRange operands;  // in Sequence::operands
};

struct Sequence {
  std::vector<Execution> executions;
  OperandLists<Instance> operands;  // kNone where one is absent
  // By section: its executions are [bounds[i], bounds[i + 1]).
  std::vector<int32_t> bounds;

  [[nodiscard]] std::span<const Instance> inputs(const Execution& e) const { return operands.inputs(e.operands); }
  [[nodiscard]] std::span<const Instance> outputs(const Execution& e) const { return operands.outputs(e.operands); }
};

// REQUIRES: placement.recomputed is a subset of recomputable_values (graph/recompute.h).
[[nodiscard]] Sequence make_sequence(const Graph& graph, const GraphFacts& facts, const Placement& placement);

}  // namespace spillway
