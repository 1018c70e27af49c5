// Predicts how long operations and transfers take on a Machine. The simulator, the planner's search and the placing of
// transfers all use it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.h"
#include "plan/machine.h"

namespace spillway {

class CostModel {
 public:
  // Copies the machine and computes the costs of operations once: as measured if the machine knows their signature,
  // else by its rates. REQUIRES: verify(graph) is empty.
  CostModel(const Graph& graph, const Machine& machine);

  // Returns the time of one execution with all tokens, on the compute, the host_compute or the peer lane.
  [[nodiscard]] double operation_seconds(OpId op, Lane lane = Lane::kCompute) const {
    return nth(lane == Lane::kHostCompute ? host_seconds_ : compute_seconds_, op);
  }
  // Lets an operation stand for another one, too.
  void join(OpId op, OpId other);
  // Returns the bytes that a rank sends for a collective; 0 for other operations.
  [[nodiscard]] int64_t sent_bytes(OpId op) const { return nth(sent_bytes_, op); }
  // Returns how long so many transfers, of so many bytes together, keep their lane busy; infinite on a lane that the
  // machine does not have.
  [[nodiscard]] double transfer_seconds(Lane lane, int64_t bytes, int64_t count = 1) const;
  // Returns the additional delay until instructions that wait for a transfer go on.
  [[nodiscard]] double latency_seconds(Lane lane) const { return nth(machine_.link_latency_seconds, lane); }
  [[nodiscard]] const Machine& machine() const { return machine_; }

 private:
  Machine machine_;
  // By operation.
  std::vector<double> compute_seconds_, host_seconds_;
  std::vector<int64_t> sent_bytes_;
};

}  // namespace spillway
