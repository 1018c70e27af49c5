// The planner's constraints: how many bytes it may use, and which choices the user has fixed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
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
enum class ActivationPolicy : uint8_t { kKeep, kRecompute, kHost, kDisk };
// Returns "keep", "recompute", "host" or "disk".
[[nodiscard]] std::string_view name_of(ActivationPolicy activation_policy);

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

// The activation policy of each group of a block's saved activations.
using Saved = std::array<ActivationPolicy, kSavedGroups>;
using SavedPolicy = std::array<std::optional<ActivationPolicy>, kSavedGroups>;

// The user's own files, in which frozen weights may live.
struct OwnFiles {
  std::vector<bool> held;  // by value: a frozen weight that they hold in the graph's layout; empty: none
  // If true, the disk holds nothing but these files: a weight that they do not hold stays on the device.
  bool are_all_of_disk = false;

  [[nodiscard]] bool hold(ValueId value) const { return !held.empty() && nth(held, value); }
};

// Selects groups of a graph. An absent member matches everything.
// Returns the share of free memory that default budgets take. The rest is for allocations outside of the arenas.
[[nodiscard]] constexpr int64_t usable_bytes(int64_t free_bytes) { return free_bytes / 10 * 9; }

// The free GPU memory that every budget leaves after the libraries have created their contexts: for kernel code, which
// is loaded when a kernel first runs, and for sections that are captured as graphs. An estimate; the measured value is
// device_library_bytes in report.json.
inline constexpr int64_t kGpuReserve = 512 * kMiB;

struct GroupPattern {
  std::optional<ValueKind> kind;
  std::optional<bool> in_block;
  std::optional<std::string_view> part;

  [[nodiscard]] constexpr bool matches(const Group& group) const {
    return (!kind || *kind == group.kind) && (!in_block || *in_block == (group.block != kNone)) &&
           (!part || *part == group.part);
  }
};
inline constexpr GroupPattern kWeightsOutside[] = {{.kind = ValueKind::kFrozenWeight, .in_block = false},
                                                   {.kind = ValueKind::kTrainableWeight, .in_block = false}};

// The tier in which groups live between uses; none: the plan chooses it, whatever the rules before this one say.
struct Rule {
  GroupPattern pattern;
  std::optional<Tier> home = Tier::kDevice;
};

// Returns the tier that rules fix for a group: of several that match, the last one counts.
[[nodiscard]] std::optional<Tier> home_of(std::span<const Rule> rules, const Group& group);

// The choices that the user has fixed. The planner makes those that are absent.
struct Policy {
  SavedPolicy saved;                        // the policy of every block,
  std::map<BlockId, SavedPolicy> saved_in;  // except for these
  bool synchronous = false;                 // activations move while compute waits: `activation_offloading: legacy`
  bool may_move_saved = true;  // open groups may go to host or disk; not with `activation_offloading: false`
  std::vector<Rule> rules;
  OwnFiles own_files;  // the home of the weights that they hold, if that is the disk

  [[nodiscard]] const SavedPolicy& saved_of(BlockId block) const {
    const auto found = saved_in.find(block);
    return found == saved_in.end() ? saved : found->second;
  }
  [[nodiscard]] std::optional<Tier> home_of(const Group& group) const { return spillway::home_of(rules, group); }
  [[nodiscard]] std::optional<ActivationPolicy>& operator[](SavedGroup group) { return nth(saved, group); }
  [[nodiscard]] std::optional<ActivationPolicy> operator[](SavedGroup group) const { return nth(saved, group); }
};

// Returns the policy that gives every group of every block the same activation policy; boundary values are kept.
[[nodiscard]] inline Policy saved_policy(ActivationPolicy activation_policy) {
  Policy policy;
  policy.saved.fill(activation_policy);
  policy[SavedGroup::kBoundary] = ActivationPolicy::kKeep;
  return policy;
}

}  // namespace spillway
