// The time that operations took in a run, whatever programs they were in.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/executor.h"

namespace spillway {

// The time of an operation on the computing lanes.
struct OperationTime {
  std::string_view name;
  int64_t calls = 0;
  double seconds = 0;
};

// Returns the times by operation, the longest first. `before` are those of other programs that ran before.
[[nodiscard]] std::vector<OperationTime> time_by_operation(const Graph& graph, const Program& program,
                                                           const Executor& executor,
                                                           const std::vector<OperationTime>& before = {});

}  // namespace spillway
