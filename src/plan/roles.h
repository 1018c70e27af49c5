// The homes that a search varies. Groups that are alike change their homes together: they have a role. So a search
// tries a few combinations of tiers, whatever the number of blocks, and then moves the groups of single blocks.
// docs/add-a-home.md says how to add one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "base/index.h"
#include "plan/choices.h"
#include "plan/groups.h"

namespace spillway {

enum class Role : uint8_t {
  kState,  // of an optimizer
  kGradients,
  kFrozen,     // frozen weights of blocks
  kTrainable,  // the working copies of trainable weights of blocks
  kFrozenExperts,
  kTrainableExperts,  // where experts have homes apart from the rest of their blocks
  kOuter,             // weights outside blocks, except
  kTables,            // embeddings that are not the head, too
};
constexpr int kRoles = 8;
inline constexpr std::array kEachRole = {Role::kState,         Role::kGradients,        Role::kFrozen, Role::kTrainable,
                                         Role::kFrozenExperts, Role::kTrainableExperts, Role::kOuter,  Role::kTables};
static_assert(kEachRole.size() == kRoles);

// A tier for each role.
using Homes = std::array<Tier, kRoles>;

class RoleSet {
 public:
  constexpr RoleSet(std::initializer_list<Role> roles) {
    for (const Role role : roles) bits_ |= 1U << static_cast<unsigned>(role);
  }
  [[nodiscard]] constexpr bool has(Role role) const { return (bits_ >> static_cast<unsigned>(role) & 1U) != 0; }
  [[nodiscard]] constexpr bool meets(RoleSet other) const { return (bits_ & other.bits_) != 0; }
  constexpr void add(RoleSet other) { bits_ |= other.bits_; }
  bool operator==(const RoleSet&) const = default;

 private:
  uint32_t bits_ = 0;
};
// The roles of blocks' weights, and those of optimizer state.
inline constexpr RoleSet kBlockWeights = {Role::kFrozen, Role::kTrainable, Role::kFrozenExperts,
                                          Role::kTrainableExperts},
                         kStates = {Role::kState};

// Some of the blocks of a model, or of other items in a row.
struct Subset {
  enum class Where : uint8_t { kFirst, kRest, kSpread };
  Where where = Where::kFirst;
  size_t count = 0;

  // Returns true if item `i` of `items` is one of the first `count`, one of those behind them, or one of `count` items
  // that are spread evenly.
  [[nodiscard]] bool has(size_t i, size_t items) const;
  bool operator==(const Subset&) const = default;
};

// The groups of a graph by their roles, and the tiers that they may live in.
class Roles {
 public:
  // `tiers` are those that may be chosen, the nearest first. Borrows the graph.
  Roles(const Graph& graph, const Policy& policy, std::vector<Tier> tiers);

  // Returns true if the graph has a group of this role.
  [[nodiscard]] bool is_present(Role role) const { return nth(present_, role); }
  // Returns true if it has one, and the user has not fixed its home.
  [[nodiscard]] bool is_open(Role role) const { return is_present(role) && !nth(fixed_, role); }
  // Returns the tiers that are worth a look for a role, the nearest first, given those of the roles before it.
  [[nodiscard]] std::vector<Tier> options(Role role, const Homes& homes) const;
  // Returns all combinations of options; the first has the nearest tiers.
  [[nodiscard]] std::vector<Homes> combinations() const;

  // Returns the residency of each group, given those of the roles. Groups without a role live where the policy says, or
  // on the device.
  [[nodiscard]] std::vector<Residency> residencies(const Homes& homes) const;
  // Returns the farthest tier of the groups of a role outside blocks; without tables, that of the weights there.
  [[nodiscard]] Tier outside(const Choices& choices, Role role) const;
  // Returns true if a group of a block (kNone: outside blocks) with an open role of `roles` lives farther than `tier`.
  [[nodiscard]] bool is_farther(const Choices& choices, RoleSet roles, BlockId block, Tier tier) const;
  // Moves all of these groups to a tier, or only those that live farther.
  void move(Choices& choices, RoleSet roles, BlockId block, Tier tier) const;
  void bring(Choices& choices, RoleSet roles, BlockId block, Tier tier) const;
  // Returns the groups of a block with this role.
  [[nodiscard]] std::span<const GroupId> groups(Role role, BlockId block) const;

 private:
  template <typename Visit>
  void visit(RoleSet roles, BlockId block, const Visit& visit) const;

  const Graph& graph_;
  std::vector<Tier> tiers_;
  std::array<bool, kRoles> present_{};
  std::array<std::optional<Tier>, kRoles> fixed_;
  std::vector<Residency> others_;             // by group: of those without a role
  std::vector<std::optional<Role>> role_of_;  // by group
  Groups by_place_;                           // by role and block, the groups outside blocks after those of all blocks
};

}  // namespace spillway
