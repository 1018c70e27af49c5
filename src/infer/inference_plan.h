// How programs are planned that run models and train nothing.
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
  // What everything may take of the device's memory. Weights that do not fit are read from the model's files each time
  // they are used, where these hold them as they are computed with. None: all are kept.
  std::optional<int64_t> device_bytes = {};
  Machine machine = {};           // whose rates decide, within device_bytes, what is kept
  std::string_view instead = {};  // what else to do where too little is, for messages: "score shorter texts"
};

// The plans of programs that run in the same memory, one at a time: of a graph, and of others that began by
// Builder::adopt of it. `stored` are the weights of the first one that may be read from files. Throws InputError for a
// budget that nothing fits, MachineError where the device has too little memory.
[[nodiscard]] std::vector<Plan> plan_inference(const std::vector<const Graph*>& graphs, const StoredWeights& stored,
                                               const InferenceBudget& budget, int threads, const Device& device);

// What the programs take of the device's memory.
[[nodiscard]] int64_t device_bytes_of(const std::vector<Plan>& plans);

}  // namespace spillway::infer
