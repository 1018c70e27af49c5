// The order of execution: the graph's operations, with forward operations repeated in the backward pass right before
// the first reader of what is made again.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/choices.h"

namespace spillway {

// One production of a value: index 2 * value for the graph's own, 2 * value + 1 for the recomputed one.
using Instance = int32_t;
[[nodiscard]] constexpr Instance original(ValueId value) { return 2 * value; }
[[nodiscard]] constexpr Instance recomputed(ValueId value) { return 2 * value + 1; }

struct Execution {
  OpId op = kNone;
  bool recompute = false;
  std::vector<Instance> inputs;  // kNone where an operand is absent
  std::vector<Instance> outputs;
};

struct Sequence {
  std::vector<Execution> executions;
  std::array<int32_t, 4>
      bounds{};  // executions of the forward, backward and update section: [bounds[i], bounds[i + 1])
};

[[nodiscard]] Sequence make_sequence(const Graph& graph, const std::vector<bool>& recomputed_values);

}  // namespace spillway
