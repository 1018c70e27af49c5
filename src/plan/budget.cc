#include "plan/budget.h"

#include <algorithm>

#include "base/error.h"

namespace spillway {

std::string_view name_of(ActivationPolicy activation_policy) {
  switch (activation_policy) {
    case ActivationPolicy::kKeep:
      return "keep";
    case ActivationPolicy::kRecompute:
      return "recompute";
    case ActivationPolicy::kHost:
      return "host";
    case ActivationPolicy::kDisk:
      return "disk";
  }
  report_bug(__FILE__, __LINE__, "activation_policy", "unknown");
}

std::string_view name_of(SavedGroup group) {
  switch (group) {
    case SavedGroup::kBoundary:
      return "boundary";
    case SavedGroup::kAttention:
      return "attention";
    case SavedGroup::kProduct:
      return "product";
    case SavedGroup::kElementwise:
      return "elementwise";
  }
  report_bug(__FILE__, __LINE__, "saved group", "unknown");
}

std::optional<Tier> home_of(std::span<const Rule> rules, const Group& group) {
  const auto rule =
      std::find_if(rules.rbegin(), rules.rend(), [&](const Rule& one) { return one.pattern.matches(group); });
  return rule == rules.rend() ? std::nullopt : rule->home;
}

}  // namespace spillway
