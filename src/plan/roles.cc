#include "plan/roles.h"

#include <algorithm>
#include <span>

namespace spillway {
namespace {

struct RoleRow {
  GroupPattern pattern;
  Role role;
};
// The first row that matches a group has its role. Copies for generation have none: they stay where they are of use.
constexpr RoleRow kRows[] = {
    {{.in_block = false, .part = kTablePart}, Role::kTables},
    {{.kind = ValueKind::kOptimizerState}, Role::kState},
    {{.kind = ValueKind::kGradient}, Role::kGradients},
    {{.kind = ValueKind::kFrozenWeight, .in_block = true, .part = ""}, Role::kFrozen},
    {{.kind = ValueKind::kTrainableWeight, .in_block = true, .part = ""}, Role::kTrainable},
    {{.kind = ValueKind::kFrozenWeight, .in_block = true, .part = kExpertPart}, Role::kFrozenExperts},
    {{.kind = ValueKind::kTrainableWeight, .in_block = true, .part = kExpertPart}, Role::kTrainableExperts},
    {{.kind = ValueKind::kFrozenWeight, .in_block = false, .part = ""}, Role::kOuter},
    {{.kind = ValueKind::kTrainableWeight, .in_block = false, .part = ""}, Role::kOuter},
};

std::optional<Role> role_of(const Group& group) {
  for (const RoleRow& row : kRows)
    if (row.pattern.matches(group)) return row.role;
  return {};
}

}  // namespace

bool Subset::has(size_t i, size_t items) const {
  if (where == Where::kFirst) return i < count;
  if (where == Where::kRest) return i >= count;
  const auto before = [&](size_t item) { return (2 * item * count + items) / (2 * items); };
  return before(i) != before(i + 1);
}

Roles::Roles(const Graph& graph, const Policy& policy, std::vector<Tier> tiers)
    : graph_(graph), tiers_(std::move(tiers)) {
  for (const Group& group : graph.groups) {
    const std::optional<Role> role = role_of(group);
    const std::optional<Tier> fixed = policy.home_of(group);
    role_of_.push_back(role);
    others_.push_back(residency_in(fixed.value_or(Tier::kDevice), group));
    if (!role) continue;
    nth(present_, *role) = true;
    nth(fixed_, *role) = fixed;
  }
  const auto places = static_cast<int32_t>(graph.blocks.size() + 1);
  by_place_ = Groups(static_cast<size_t>(kRoles * places), graph.groups.size(), [&](size_t i) {
    const BlockId block = graph.groups[i].block;
    return role_of_[i] ? static_cast<int32_t>(*role_of_[i]) * places + (block == kNone ? places - 1 : block) : kNone;
  });
}

// Gradients leave the device after the state, which is larger and needed once per optimizer step, and no farther.
// Weights outside blocks cost waiting for little gain: they leave after the blocks' weights, to the same tier. Tables
// leave with them, to host memory, where they are looked up in next to no time; so they may also leave before. Experts
// are most of a block, of which a few are there at a time: they leave before the rest.
std::vector<Tier> Roles::options(Role role, const Homes& homes) const {
  const auto home = [&](Role other) { return nth(homes, other); };
  if (nth(fixed_, role)) return {*nth(fixed_, role)};
  if (!is_present(role)) return {role == Role::kTables ? home(Role::kOuter) : Tier::kDevice};
  const bool has_host = std::find(tiers_.begin(), tiers_.end(), Tier::kHost) != tiers_.end();
  const auto is_option = [&](Tier tier) {
    switch (role) {
      case Role::kGradients:
        return !is_present(Role::kState) || tier <= home(Role::kState);
      case Role::kTrainable:
        return !is_open(Role::kFrozen) || tier == home(Role::kFrozen);
      case Role::kFrozenExperts:
        return !is_open(Role::kFrozen) || tier >= home(Role::kFrozen);
      case Role::kTrainableExperts:
        return !is_open(Role::kTrainable) || tier >= home(Role::kTrainable);
      case Role::kOuter:
        return tier == Tier::kDevice || tier == std::max(home(Role::kFrozen), home(Role::kTrainable));
      case Role::kTables:
        if (has_host && tier == Tier::kHost) return true;
        return tier == home(Role::kOuter) && (tier == Tier::kDevice || !has_host);
      default:
        return true;
    }
  };
  std::vector<Tier> result;
  std::copy_if(tiers_.begin(), tiers_.end(), std::back_inserter(result), is_option);
  return result;
}

std::vector<Homes> Roles::combinations() const {
  std::vector<Homes> result = {Homes{}};
  for (const Role role : kEachRole) {
    std::vector<Homes> longer;
    for (Homes homes : result) {
      for (const Tier tier : options(role, homes)) {
        nth(homes, role) = tier;
        longer.push_back(homes);
      }
    }
    result = std::move(longer);
  }
  return result;
}

std::vector<Residency> Roles::residencies(const Homes& homes) const {
  std::vector<Residency> result = others_;
  for (size_t i = 0; i < result.size(); ++i)
    if (role_of_[i]) result[i] = residency_in(nth(homes, *role_of_[i]), graph_.groups[i]);
  return result;
}

std::span<const GroupId> Roles::groups(Role role, BlockId block) const {
  const size_t places = graph_.blocks.size() + 1;
  return by_place_[static_cast<size_t>(role) * places + (block == kNone ? places - 1 : static_cast<size_t>(block))];
}

template <typename Visit>
void Roles::visit(RoleSet roles, BlockId block, const Visit& visit) const {
  for (const Role role : kEachRole) {
    if (!roles.has(role) || !is_open(role)) continue;
    for (const GroupId group : groups(role, block)) visit(group);
  }
}

Tier Roles::outside(const Choices& choices, Role role) const {
  if (role == Role::kTables && !is_present(role)) role = Role::kOuter;
  Tier farthest = Tier::kDevice;
  for (const GroupId group : groups(role, kNone)) farthest = std::max(farthest, nth(choices.groups, group).home);
  return farthest;
}

bool Roles::is_farther(const Choices& choices, RoleSet roles, BlockId block, Tier tier) const {
  bool result = false;
  visit(roles, block, [&](GroupId group) { result = result || nth(choices.groups, group).home > tier; });
  return result;
}

void Roles::move(Choices& choices, RoleSet roles, BlockId block, Tier tier) const {
  visit(roles, block,
        [&](GroupId group) { nth(choices.groups, group) = residency_in(tier, nth(graph_.groups, group)); });
}

void Roles::bring(Choices& choices, RoleSet roles, BlockId block, Tier tier) const {
  visit(roles, block, [&](GroupId group) {
    if (nth(choices.groups, group).home > tier)
      nth(choices.groups, group) = residency_in(tier, nth(graph_.groups, group));
  });
}

}  // namespace spillway
