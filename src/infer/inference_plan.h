// Plans programs that run models without training.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "backend/device.h"
#include "model/stored_weights.h"
#include "plan/planner.h"

namespace spillway::infer {

struct InferenceBudget {
  // The device memory that everything together may take. Weights that do not fit come each time they are used: from
  // host memory, as far as there is room, else from the model's files, if these hold them in the dtype of the
  // computation. None: all weights are kept.
  std::optional<int64_t> device_bytes = {};
  int64_t host_bytes = 0;         // the host memory that they may take
  Machine machine = {};           // whose rates decide, within device_bytes, what is kept
  std::string_view instead = {};  // what else to do where too little is, for messages: "score shorter texts"
};

// Plans programs that run one at a time in the same memory: the first graph, and others that adopt it (Builder::adopt).
// `stored` are the weights of the first graph that may be read from files. Throws InputError if the budget is too
// small, MachineError if the device has too little memory.
[[nodiscard]] std::vector<Plan> plan_inference(const std::vector<const Graph*>& graphs, const StoredWeights& stored,
                                               const InferenceBudget& budget, int threads, const Device& device);

// Does the same where the plans fit into the budget and the device; nothing otherwise. REQUIRES: there is a budget.
[[nodiscard]] std::optional<std::vector<Plan>> plans_within(const std::vector<const Graph*>& graphs,
                                                            const StoredWeights& stored, const InferenceBudget& budget,
                                                            int threads, const Device& device);

// Returns the memory of a tier that the programs take.
[[nodiscard]] int64_t peak_bytes_of(const std::vector<Plan>& plans, Tier tier = Tier::kDevice);

}  // namespace spillway::infer
