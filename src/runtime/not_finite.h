// Finds the operation in which numbers stop being finite.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"
#include "runtime/lane_runner.h"

namespace spillway {

// The first operations of a section, in the order of the program, that write NaN and infinity.
struct NotFinite {
  struct Place {
    int32_t instruction = 0;
    OpId op = kNone;
  };
  std::optional<Place> nan, infinity;

  // Returns "NaN from softmax in layer 3"; empty where all numbers are finite.
  [[nodiscard]] std::string text(const Graph& graph) const;
};

// Returns a factory for ExecutorOptions::lanes of runners that execute one instruction after the other and read what
// each operation writes, in f32 or bf16, on the device and on the host. `found` gets what they see, and outlives them.
// Slow: for a run that ends anyway.
[[nodiscard]] MakeLaneRunner look_for_not_finite(NotFinite& found);

}  // namespace spillway
