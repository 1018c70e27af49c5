// The planner's constraints: how many bytes it may use, and which choices the user has fixed.
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

// The bytes of each tier that a run may use. If absent, the tier may not be used at all, except that an absent device
// budget means no limit.
struct Budget {
  std::optional<int64_t> device;
  std::optional<int64_t> host;
  std::optional<int64_t> disk;

  // Returns the budget of a tier. REQUIRES: a budgeted tier.
  [[nodiscard]] std::optional<int64_t> of(Tier tier) const {
    return tier == Tier::kDevice ? device : tier == Tier::kHost ? host : disk;
  }
};

// The activation policy: how the activations that a block's backward pass reads get there.
enum class Treatment : uint8_t { kKeep, kRecompute, kHost, kDisk };
// Returns "keep", "recompute", "host" or "disk".
[[nodiscard]] std::string_view name_of(Treatment treatment);

// The groups of a block's saved activations, by the cost of doing without them.
enum class SavedGroup : uint8_t {
  kBoundary,     // values that other blocks' forward operations read, too: the block's output; never recomputed
  kAttention,    // outputs of attention
  kProduct,      // outputs of other matrix products
  kElementwise,  // all else: norms, rotations, gates
};
constexpr int kSavedGroups = 4;
// Returns "boundary", "attention", "product" or "elementwise".
[[nodiscard]] std::string_view name_of(SavedGroup group);

using SavedPolicy = std::array<std::optional<Treatment>, kSavedGroups>;

// The user's own files, in which frozen weights may live.
struct OwnFiles {
  std::vector<bool> held;  // by value: a frozen weight that they hold in the graph's layout; empty: none
  // If true, the disk holds nothing but these files: a weight that they do not hold stays on the device.
  bool are_all_of_disk = false;

  [[nodiscard]] bool hold(ValueId value) const { return !held.empty() && nth(held, value); }
};

// The choices that the user has fixed. The planner makes those that are absent.
struct Policy {
  SavedPolicy saved;                        // the policy of every block,
  std::map<BlockId, SavedPolicy> saved_in;  // except for these
  bool synchronous = false;                 // activations move while compute waits: `activation_offloading: legacy`
  bool may_move_saved = true;  // open groups may go to host or disk; not with `activation_offloading: false`
  // The tiers in which they live between uses.
  std::optional<Tier> frozen_weights;     // of blocks
  std::optional<Tier> trainable_weights;  // of blocks: the working copies
  std::optional<Tier> outer_weights;      // of weights outside blocks: embedding, head
  std::optional<Tier> gradients;
  std::optional<Tier> optimizer_state;
  OwnFiles own_files;  // the home of the weights that they hold, if that is the disk

  [[nodiscard]] const SavedPolicy& saved_of(BlockId block) const {
    const auto found = saved_in.find(block);
    return found == saved_in.end() ? saved : found->second;
  }
  [[nodiscard]] std::optional<Treatment>& operator[](SavedGroup group) { return nth(saved, group); }
  [[nodiscard]] std::optional<Treatment> operator[](SavedGroup group) const { return nth(saved, group); }
};

// Returns the policy that gives every group of every block the same treatment; boundary values are kept.
[[nodiscard]] inline Policy saved_policy(Treatment treatment) {
  Policy policy;
  policy.saved.fill(treatment);
  policy[SavedGroup::kBoundary] = Treatment::kKeep;
  return policy;
}

}  // namespace spillway
