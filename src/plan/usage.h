// Reports how a plan's memory is used: bytes by class at each step.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/schedule.h"

namespace spillway {

// The kinds of values (graph/graph.h), with activations split by whether the backward pass still needs them.
enum class MemoryClass : uint8_t {
  kFrozenWeight,
  kTrainableWeight,
  kOptimizerState,
  kGradient,
  kSavedActivation,
  kTransient,  // workspaces included
  kBatch,
  kCache,
};
constexpr int kMemoryClasses = 8;
// Returns "frozen_weight", ..., "saved_activation", "transient", ...
[[nodiscard]] std::string_view name_of(MemoryClass memory_class);

using ClassBytes = std::array<int64_t, kMemoryClasses>;

// Returns the bytes of the buffers of `tier` that are live at `step`.
[[nodiscard]] ClassBytes usage_at(const Graph& graph, const Schedule& schedule, Tier tier, int32_t step);

// Returns the same for every step at once: one entry per step.
[[nodiscard]] std::vector<ClassBytes> usage_over_steps(const Graph& graph, const Schedule& schedule, Tier tier);

// Returns the class of a value that a copy moves: an activation that moves is a saved one.
[[nodiscard]] MemoryClass class_of_moved(const Value& value);

// Describes a step: "backward, layer 23, attention_grad", or, for a transfer, "disk_write of add.841".
[[nodiscard]] std::string describe_step(const Graph& graph, const Schedule& schedule, int32_t step);

// One row per buffer that is live at a step, largest first.
struct LiveBuffer {
  std::string name;
  MemoryClass memory_class = MemoryClass::kTransient;
  int64_t bytes = 0;
};
[[nodiscard]] std::vector<LiveBuffer> live_at(const Graph& graph, const Schedule& schedule, Tier tier, int32_t step);

}  // namespace spillway
