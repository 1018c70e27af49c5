#include "plan/testing/random_plan.h"

#include <cmath>

namespace spillway::testing {
namespace {

// Returns a machine on which every transfer is possible.
Machine tiered_machine(RandomStream& random) {
  Machine machine;
  machine.link_bytes_per_second.fill(std::pow(10.0, 7 + random.below(4)));
  return machine;
}

template <typename T, size_t N>
T any_of(const T (&list)[N], RandomStream& random) {
  return list[random.below(N)];
}

}  // namespace

Choices random_choices(const Graph& graph, RandomStream& random) {
  constexpr ActivationPolicy kActivationPolicies[] = {ActivationPolicy::kKeep, ActivationPolicy::kRecompute,
                                                      ActivationPolicy::kHost, ActivationPolicy::kDisk};
  constexpr ActivationPolicy kBoundaryPolicies[] = {ActivationPolicy::kKeep, ActivationPolicy::kHost,
                                                    ActivationPolicy::kDisk};
  constexpr Tier kHomes[] = {Tier::kDevice, Tier::kHost, Tier::kDisk};
  constexpr Overlap kOverlaps[] = {Overlap::kSynchronous, Overlap::kNarrow, Overlap::kWide, Overlap::kBlock};
  Choices choices{.overlap = any_of(kOverlaps, random), .synchronous_activations = random.below(4) == 0};
  for (const Group& group : graph.groups) {
    Residency residency = residency_in(any_of(kHomes, random), group);
    if (random.below(2) == 0) residency.site = Tier::kDevice;
    choices.groups.push_back(residency);
  }
  for (size_t i = 0; i < graph.blocks.size(); ++i) {
    Saved& saved = choices.saved.emplace_back();
    for (ActivationPolicy& activation_policy : saved) activation_policy = any_of(kActivationPolicies, random);
    nth(saved, SavedGroup::kBoundary) = any_of(kBoundaryPolicies, random);
  }
  return choices;
}

Plan random_plan(const Graph& graph, RandomStream& random) {
  OwnFiles own_files;
  for (size_t i = 0; i < graph.values.size(); ++i) own_files.held.push_back(random.below(2) == 0);
  const Machine machine = tiered_machine(random);
  return plan_for(graph, machine, random_choices(graph, random), own_files);
}

}  // namespace spillway::testing
