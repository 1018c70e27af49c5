#include "plan/choices.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "graph/operation.h"

namespace spillway {
namespace {

Tier tier_of(ActivationPolicy activation_policy) {
  return activation_policy == ActivationPolicy::kHost   ? Tier::kHost
         : activation_policy == ActivationPolicy::kDisk ? Tier::kDisk
                                                        : Tier::kDevice;
}

class Placer {
 public:
  Placer(const Graph& graph, const GraphFacts& facts, const Choices& choices, const OwnFiles& own_files)
      : graph_(graph), facts_(facts), choices_(choices), own_files_(own_files) {}

  Placement run() {
    result_.homes.assign(graph_.values.size(), Tier::kDevice);
    result_.recomputed.assign(graph_.values.size(), 0);
    result_.synchronous.assign(graph_.values.size(), 0);
    result_.sites.assign(graph_.ops.size(), Tier::kDevice);
    const auto works_on_host = [](const Residency& residency) { return residency.site == Tier::kHost; };
    if (std::any_of(choices_.groups.begin(), choices_.groups.end(), works_on_host)) choose_sites();
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) place(id);
    return std::move(result_);
  }

 private:
  [[nodiscard]] Residency residency(ValueId value) const {
    const GroupId group = facts_.value(value).group;
    return group == kNone ? Residency{} : nth(choices_.groups, group);
  }

  // Places lookups where the table is worked on, operations on states where the update runs, and operations on
  // gradients alone where those are; sums of their norms follow them. Products stay: on the host they would take far
  // longer, and give other bits.
  void choose_sites() {
    for (size_t i = 0; i < facts_.ops.size(); ++i) {
      const OpFacts& op = facts_.ops[i];
      if (op.table != kNone) result_.sites[i] = residency(op.table).site;
      if (op.recompute_cost == RecomputeCost::kProduct) continue;
      const std::span<const ValueId> inputs = facts_.inputs(op);
      const auto is_state = [&](ValueId v) { return v != kNone && facts_.value(v).kind == ValueKind::kOptimizerState; };
      const auto is_on_host = [&](ValueId v) {
        if (v == kNone || nth(graph_.sections, op.section).repeats != Repeats::kStep) return false;
        const ValueFacts& value = facts_.value(v);
        if (value.kind == ValueKind::kGradient) return residency(v).site == Tier::kHost;
        return value.producer != kNone && nth(result_.sites, value.producer) == Tier::kHost;
      };
      // Prefers state of the weight over state that is kept for all weights.
      const auto is_of_weight = [&](ValueId v) { return is_state(v) && facts_.value(v).block == op.block; };
      auto state = std::find_if(inputs.begin(), inputs.end(), is_of_weight);
      if (state == inputs.end()) state = std::find_if(inputs.begin(), inputs.end(), is_state);
      const bool on_host = state != inputs.end() ? residency(*state).site == Tier::kHost
                                                 : std::any_of(inputs.begin(), inputs.end(), is_on_host);
      if (on_host) result_.sites[i] = Tier::kHost;
    }
  }

  void place(ValueId id) {
    const ValueFacts& facts = facts_.value(id);
    Tier& home = nth(result_.homes, id);
    if (facts.persistent) {
      home = in_files(facts.storage, residency(id).home);
      return;
    }
    if (facts.given()) return;
    home = facts.group == kNone ? nth(result_.sites, facts.producer) : residency(id).home;
    if (facts.saved_block == kNone) return;
    const ActivationPolicy activation_policy = nth(nth(choices_.saved, facts.saved_block), facts.saved_group);
    const bool last = facts.saved_block + 1 == std::ssize(graph_.blocks);
    if (activation_policy == ActivationPolicy::kRecompute) {
      nth(result_.recomputed, id) = 1;
    } else if (!last) {
      home = tier_of(activation_policy);
      nth(result_.synchronous, id) = choices_.synchronous_activations ? 1 : 0;
    }
  }

  // Returns the home of a persistent value, where the disk may have the user's files.
  [[nodiscard]] Tier in_files(ValueId root, Tier home) const {
    if (home != Tier::kDisk) return home;
    if (facts_.value(root).kind == ValueKind::kFrozenWeight && own_files_.hold(root)) return Tier::kFiles;
    return own_files_.are_all_of_disk ? Tier::kDevice : home;
  }

  const Graph& graph_;
  const GraphFacts& facts_;
  const Choices& choices_;
  const OwnFiles& own_files_;
  Placement result_;
};

}  // namespace

Residency residency_in(Tier home, const Group& group) {
  const bool is_worked_on =
      group.kind == ValueKind::kOptimizerState || group.kind == ValueKind::kGradient || group.part == kTablePart;
  return {home, home == Tier::kHost && is_worked_on ? Tier::kHost : Tier::kDevice};
}

ActivationPolicy summary(const Saved& saved) {
  for (const ActivationPolicy activation_policy :
       {ActivationPolicy::kDisk, ActivationPolicy::kHost, ActivationPolicy::kRecompute}) {
    if (std::find(saved.begin(), saved.end(), activation_policy) != saved.end()) return activation_policy;
  }
  return ActivationPolicy::kKeep;
}

Saved saved_alike(ActivationPolicy activation_policy) {
  Saved saved;
  saved.fill(activation_policy);
  if (activation_policy == ActivationPolicy::kRecompute) nth(saved, SavedGroup::kBoundary) = ActivationPolicy::kKeep;
  return saved;
}

void move_groups(const Graph& graph, const GroupPattern& pattern, Tier home, Choices& choices) {
  for (size_t i = 0; i < graph.groups.size(); ++i) {
    if (pattern.matches(graph.groups[i])) choices.groups[i] = residency_in(home, graph.groups[i]);
  }
}

Placement place_values(const Graph& graph, const GraphFacts& facts, const Choices& choices, const OwnFiles& own_files) {
  SPILLWAY_CHECK(choices.saved.size() == graph.blocks.size(), "{} choices for {} blocks", choices.saved.size(),
                 graph.blocks.size());
  SPILLWAY_CHECK(choices.groups.size() == graph.groups.size(), "{} choices for {} groups", choices.groups.size(),
                 graph.groups.size());
  return Placer(graph, facts, choices, own_files).run();
}

}  // namespace spillway
