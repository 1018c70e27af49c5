#include "plan/choices.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "graph/operation.h"

namespace spillway {
namespace {

Tier tier_of(Treatment treatment) {
  return treatment == Treatment::kHost ? Tier::kHost : treatment == Treatment::kDisk ? Tier::kDisk : Tier::kDevice;
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
    choose_lookup_sites();
    choose_update_sites();
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) place(id);
    return std::move(result_);
  }

 private:
  [[nodiscard]] const BlockChoice* block_of(BlockId block) const {
    return block == kNone ? nullptr : &nth(choices_.blocks, block);
  }

  // Looks up rows of a table where it lies; the rows that the host looks up go to the device.
  void choose_lookup_sites() {
    if (choices_.tables != Tier::kHost) return;
    for (size_t i = 0; i < facts_.ops.size(); ++i) {
      const ValueId table = facts_.ops[i].table;
      if (table != kNone && facts_.value(table).is_table) result_.sites[i] = Tier::kHost;
    }
  }

  // Places operations on states where the update runs, and operations on gradients alone where those live; sums of
  // their norms follow them. Products stay: on the host they would take far longer, and give other bits.
  void choose_update_sites() {
    if (choices_.update_site != Tier::kHost) return;
    for (size_t i = 0; i < facts_.ops.size(); ++i) {
      const OpFacts& op = facts_.ops[i];
      if (op.recompute_cost == RecomputeCost::kProduct) continue;
      const std::span<const ValueId> inputs = facts_.inputs(op);
      const auto is_state = [&](ValueId v) { return v != kNone && facts_.value(v).kind == ValueKind::kOptimizerState; };
      const auto is_on_host = [&](ValueId v) {
        if (v == kNone || nth(graph_.sections, op.section).repeats != Repeats::kStep) return false;
        const ValueFacts& value = facts_.value(v);
        if (value.kind == ValueKind::kGradient) return choices_.gradients != Tier::kDevice;
        return value.producer != kNone && nth(result_.sites, value.producer) == Tier::kHost;
      };
      // Prefers state of the weight over state that is kept for all weights.
      const auto is_of_weight = [&](ValueId v) { return is_state(v) && facts_.value(v).block == op.block; };
      auto state = std::find_if(inputs.begin(), inputs.end(), is_of_weight);
      if (state == inputs.end()) state = std::find_if(inputs.begin(), inputs.end(), is_state);
      const bool on_host = state != inputs.end() ? update_tier(choices_, facts_.value(*state).block) == Tier::kHost
                                                 : std::any_of(inputs.begin(), inputs.end(), is_on_host);
      if (on_host) result_.sites[i] = Tier::kHost;
    }
  }

  void place(ValueId id) {
    const ValueFacts& facts = facts_.value(id);
    Tier& home = nth(result_.homes, id);
    if (facts.persistent) {
      home = persistent_home(facts.storage);
      return;
    }
    if (facts.given()) return;
    home = nth(result_.sites, facts.producer);
    if (facts.kind == ValueKind::kGradient) home = choices_.gradients;
    if (facts.saved_block == kNone) return;
    const Treatment treatment = nth(choices_.blocks, facts.saved_block)[facts.saved_group];
    const bool last = facts.saved_block + 1 == std::ssize(graph_.blocks);
    if (treatment == Treatment::kRecompute) {
      nth(result_.recomputed, id) = 1;
    } else if (!last) {
      home = tier_of(treatment);
      nth(result_.synchronous, id) = choices_.synchronous_activations ? 1 : 0;
    }
  }

  [[nodiscard]] Tier outer_home(const ValueFacts& value) const {
    return value.is_table ? choices_.tables : choices_.outer_weights;
  }

  // Returns the home of a weight that is in no file.
  [[nodiscard]] Tier besides_files(Tier home) const {
    return home == Tier::kDisk && own_files_.are_all_of_disk ? Tier::kDevice : home;
  }

  [[nodiscard]] Tier persistent_home(ValueId root) const {
    const ValueFacts& value = facts_.value(root);
    const BlockChoice* block = block_of(value.block);
    switch (value.kind) {
      case ValueKind::kFrozenWeight: {
        const Tier home = block ? block->frozen_weights : outer_home(value);
        return home == Tier::kDisk && own_files_.hold(root) ? Tier::kFiles : besides_files(home);
      }
      case ValueKind::kTrainableWeight:
        return besides_files(block ? block->trainable_weights : outer_home(value));
      case ValueKind::kOptimizerState:
        return state_tier(choices_, value.block);
      case ValueKind::kGradient:
        return choices_.gradients;
      default:
        return Tier::kDevice;
    }
  }

  const Graph& graph_;
  const GraphFacts& facts_;
  const Choices& choices_;
  const OwnFiles& own_files_;
  Placement result_;
};

}  // namespace

Treatment summary(const BlockChoice& choice) {
  const auto any = [&](Treatment treatment) {
    return std::find(choice.saved.begin(), choice.saved.end(), treatment) != choice.saved.end();
  };
  for (const Treatment treatment : {Treatment::kDisk, Treatment::kHost, Treatment::kRecompute}) {
    if (any(treatment)) return treatment;
  }
  return Treatment::kKeep;
}

Tier weights_tier(const BlockChoice& choice) { return std::max(choice.frozen_weights, choice.trainable_weights); }

Tier state_tier(const Choices& choices, BlockId block) {
  if (block == kNone) return choices.optimizer_state;
  return nth(choices.blocks, block).state.value_or(choices.optimizer_state);
}

Tier update_tier(const Choices& choices, BlockId block) {
  const bool on_device = block != kNone && nth(choices.blocks, block).device_update;
  return on_device || state_tier(choices, block) == Tier::kDevice ? Tier::kDevice : choices.update_site;
}

BlockChoice block_choice(Treatment saved) {
  BlockChoice choice;
  choice.saved.fill(saved);
  if (saved == Treatment::kRecompute) choice[SavedGroup::kBoundary] = Treatment::kKeep;
  return choice;
}

Placement place_values(const Graph& graph, const GraphFacts& facts, const Choices& choices, const OwnFiles& own_files) {
  SPILLWAY_CHECK(choices.blocks.size() == graph.blocks.size(), "{} choices for {} blocks", choices.blocks.size(),
                 graph.blocks.size());
  return Placer(graph, facts, choices, own_files).run();
}

}  // namespace spillway
