// How long operations and transfers take on a Machine. The simulator, the planner's search and the placing of transfers
// all ask here.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/machine.h"

namespace spillway {

class CostModel {
 public:
  // The machine is copied; costs of operations are computed once. REQUIRES: verify(graph) is empty.
  CostModel(const Graph& graph, const Machine& machine);

  // One execution of an operation with all tokens on the compute or the host_compute lane.
  [[nodiscard]] double operation_seconds(OpId op) const { return operation_seconds_[static_cast<size_t>(op)]; }
  // Infinite on a lane that the machine does not have.
  [[nodiscard]] double transfer_seconds(Lane lane, int64_t bytes) const;
  [[nodiscard]] const Machine& machine() const { return machine_; }

 private:
  Machine machine_;
  std::vector<double> operation_seconds_;
};

}  // namespace spillway
