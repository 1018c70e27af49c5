// The order of execution: the graph's operations, and those of recomputable sections once more in a later one, right
// before the first reader of what is recomputed. Operations of an update that run on the device and on the host take
// turns, so that neither side, nor what it has moved, waits behind a block of the other's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/sizes.h"
#include "plan/choices.h"

namespace spillway {

// One production of a value: index 2 * value for the graph's own, 2 * value + 1 for the recomputed one.
using Instance = int32_t;
[[nodiscard]] constexpr Instance original(ValueId value) { return 2 * value; }
[[nodiscard]] constexpr Instance recomputed(ValueId value) { return 2 * value + 1; }
// kNone of kNone.
[[nodiscard]] constexpr ValueId value_of(Instance instance) { return instance >> 1; }
// Neither recomputed nor kNone.
[[nodiscard]] constexpr bool is_original(Instance instance) { return instance >= 0 && instance % 2 == 0; }

struct Execution {
  OpId op = kNone;
  bool recompute = false;
  int32_t first_operand = 0, first_output = 0, end = 0;  // into Sequence::operands
};

struct Sequence {
  std::vector<Execution> executions;
  std::vector<Instance> operands;  // of one execution after another, inputs before outputs
  // By section: its executions are [bounds[i], bounds[i + 1]).
  std::vector<int32_t> bounds;

  // kNone where an operand is absent.
  [[nodiscard]] std::span<const Instance> inputs(const Execution& e) const {
    return subspan_of(operands, e.first_operand, e.first_output - e.first_operand);
  }
  [[nodiscard]] std::span<const Instance> outputs(const Execution& e) const {
    return subspan_of(operands, e.first_output, e.end - e.first_output);
  }
};

// REQUIRES: placement.recomputed are some of recomputable_values (graph/recompute.h).
[[nodiscard]] Sequence make_sequence(const Graph& graph, const GraphFacts& facts, const Placement& placement);

}  // namespace spillway
