#include "plan/shown_homes.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/index.h"

namespace spillway {
namespace {

using MaybeResidency = std::optional<Residency>;

void take_farther(MaybeResidency& residency, const Residency& other) {
  if (!residency || residency->home < other.home) residency = other;
}

Residency most_common(const std::vector<MaybeResidency>& states) {
  std::array<int64_t, kTiers> blocks{};
  for (const MaybeResidency& state : states)
    if (state && state->home != Tier::kDevice) ++nth(blocks, state->home);
  const auto most = std::max_element(blocks.begin(), blocks.end());
  if (*most == 0) return {};
  Residency result{.home = static_cast<Tier>(most - blocks.begin())};
  for (const MaybeResidency& state : states)
    if (state && state->home == result.home) result.site = std::max(result.site, state->site);
  return result;
}

}  // namespace

ShownHomes shown_homes(const Graph& graph, const Choices& choices) {
  struct Kinds {
    MaybeResidency frozen, trainable, experts, state;
  };
  std::vector<Kinds> blocks(graph.blocks.size());
  Kinds outside;
  MaybeResidency tables, gradients;
  for (size_t i = 0; i < graph.groups.size(); ++i) {
    const Group& group = graph.groups[i];
    Kinds& kinds = group.block == kNone ? outside : nth(blocks, group.block);
    if (group.part == kTablePart) {
      take_farther(tables, choices.groups[i]);
    } else if (group.part == kExpertPart) {
      take_farther(kinds.experts, choices.groups[i]);
    } else if (group.kind == ValueKind::kFrozenWeight) {
      take_farther(kinds.frozen, choices.groups[i]);
    } else if (group.kind == ValueKind::kTrainableWeight) {
      take_farther(kinds.trainable, choices.groups[i]);
    } else if (group.kind == ValueKind::kOptimizerState) {
      take_farther(kinds.state, choices.groups[i]);
    } else if (group.kind == ValueKind::kGradient) {
      take_farther(gradients, choices.groups[i]);
    }
  }
  std::vector<MaybeResidency> states;
  for (const Kinds& kinds : blocks) states.push_back(kinds.state);
  ShownHomes result{.gradients = gradients.value_or(Residency{}).home,
                    .state = outside.state ? *outside.state : most_common(states)};
  for (const MaybeResidency& weights : {outside.frozen, outside.trainable})
    result.outer_weights = std::max(result.outer_weights, weights.value_or(Residency{}).home);
  result.tables = tables ? tables->home : result.outer_weights;
  for (const Kinds& kinds : blocks) {
    const Residency frozen = kinds.frozen ? *kinds.frozen : kinds.trainable.value_or(Residency{});
    const Residency trainable = kinds.trainable ? *kinds.trainable : frozen;
    result.blocks.push_back({frozen.home, trainable.home, kinds.state.value_or(result.state)});
    if (kinds.experts) result.blocks.back().experts = kinds.experts->home;
  }
  return result;
}

}  // namespace spillway
