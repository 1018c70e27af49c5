// What the planner is told: how many bytes it may use, and what the user has fixed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/index.h"
#include "plan/program.h"

namespace spillway {

// Bytes of each tier that a run may use; absent: the tier may not be used at all, except that an absent device budget
// means no limit.
struct Budget {
  std::optional<int64_t> device;
  std::optional<int64_t> host;
  std::optional<int64_t> disk;

  // REQUIRES: a budgeted tier.
  [[nodiscard]] std::optional<int64_t> of(Tier tier) const {
    return tier == Tier::kDevice ? device : tier == Tier::kHost ? host : disk;
  }
};

// What happens to the activations that a block's backward pass reads.
enum class Treatment : uint8_t { kKeep, kRecompute, kHost, kDisk };
// "keep", "recompute", "host", "disk"
[[nodiscard]] std::string_view name_of(Treatment treatment);

// The saved activations of a block, by what it costs to do without them.
enum class SavedGroup : uint8_t {
  kBoundary,     // what other blocks' forward operations read, too: the block's output; never recomputed
  kAttention,    // outputs of attention
  kProduct,      // outputs of other matrix products
  kElementwise,  // all else: norms, rotations, gates
};
constexpr int kSavedGroups = 4;
// "boundary", "attention", "product", "elementwise"
[[nodiscard]] std::string_view name_of(SavedGroup group);

using SavedPolicy = std::array<std::optional<Treatment>, kSavedGroups>;

// The user's own files, where frozen weights may live.
struct OwnFiles {
  std::vector<bool> held;  // by value: a frozen weight that they hold as the graph wants it; empty: none
  // There is nothing on disk but these files: a weight that they do not hold stays on the device.
  bool are_all_of_disk = false;

  [[nodiscard]] bool hold(ValueId value) const { return !held.empty() && nth(held, value); }
};

// What the user has fixed. What is absent is the planner's choice.
struct Policy {
  SavedPolicy saved;                        // of every block,
  std::map<BlockId, SavedPolicy> saved_in;  // but for these
  bool synchronous = false;                 // activations move while compute waits: `activation_offloading: legacy`
  bool may_move_saved = true;  // open groups may go to host or disk; not with `activation_offloading: false`
  // Where they live between uses.
  std::optional<Tier> frozen_weights;     // of blocks
  std::optional<Tier> trainable_weights;  // of blocks: the working copies
  std::optional<Tier> outer_weights;      // of what is outside blocks: embedding, head
  std::optional<Tier> gradients;
  std::optional<Tier> optimizer_state;
  OwnFiles own_files;  // the home of what they hold, where that is the disk

  [[nodiscard]] const SavedPolicy& saved_of(BlockId block) const {
    const auto found = saved_in.find(block);
    return found == saved_in.end() ? saved : found->second;
  }
  [[nodiscard]] std::optional<Treatment>& operator[](SavedGroup group) { return nth(saved, group); }
  [[nodiscard]] std::optional<Treatment> operator[](SavedGroup group) const { return nth(saved, group); }
};

// The policy that treats every group of every block alike; what crosses blocks is kept.
[[nodiscard]] inline Policy saved_policy(Treatment treatment) {
  Policy policy;
  policy.saved.fill(treatment);
  policy[SavedGroup::kBoundary] = Treatment::kKeep;
  return policy;
}

}  // namespace spillway
