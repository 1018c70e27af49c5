// What the planner is told: how many bytes it may use, and what the user has fixed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/program.h"

namespace spillway {

// Bytes of each tier that a run may use; absent: the tier may not be used at all, except that an absent device budget
// means no limit.
struct Budget {
  std::optional<int64_t> device;
  std::optional<int64_t> host;
  std::optional<int64_t> disk;
};

// What happens to the activations that a block's backward pass reads.
enum class Treatment : uint8_t { kKeep, kRecompute, kHost, kDisk };
// "keep", "recompute", "host", "disk"
[[nodiscard]] std::string_view name_of(Treatment treatment);

struct Policy {
  // Of every block (`gradient_checkpointing: true` fixes kRecompute); absent: the planner chooses block by block.
  std::optional<Treatment> activations;
};

}  // namespace spillway
