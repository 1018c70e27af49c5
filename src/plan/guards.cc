#include "plan/guards.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/index.h"
#include "plan/lead.h"

namespace spillway {
namespace {

// Where the chance of an expert is higher, nearly all come: then a guard saves nothing.
constexpr double kMaxChance = 0.9;

class LoadGuards {
 public:
  LoadGuards(const Graph& graph, const GraphFacts& facts, const Placement& placement, const Sequence& sequence,
             const CostModel& costs, Transfers& transfers)
      : graph_(graph),
        facts_(facts),
        placement_(placement),
        sequence_(sequence),
        costs_(costs),
        transfers_(transfers),
        made_by_(2 * graph.values.size(), kNone) {}

  void run() {
    for (int32_t i = 0; i < std::ssize(sequence_.executions); ++i)
      for (const Instance output : sequence_.outputs(execution(i))) nth(made_by_, output) = i;
    auto stay = transfers_.stays.begin();
    for (size_t section = 0; section + 1 < sequence_.bounds.size(); ++section) {
      const auto begin = stay;
      while (stay != transfers_.stays.end() && stay->first < sequence_.bounds[section + 1]) ++stay;
      guard_section(section, {begin, stay});
    }
  }

 private:
  [[nodiscard]] const Execution& execution(int32_t i) const { return nth(sequence_.executions, i); }

  // Guards the loads of a section if that makes it faster.
  void guard_section(size_t section, std::span<Stay> stays) {
    std::vector<LoadGuard> guards;
    std::array<double, kLanes> all{}, expected{};  // seconds
    for (const Stay& stay : stays) {
      if (!stay.loads) continue;
      const LoadGuard guard = guard_of_load(stay);
      const Lane lane = lane_between(nth(placement_.homes, stay.storage), stay.tier);
      const ValueFacts& value = facts_.value(stay.storage);
      nth(all, lane) += costs_.transfer_seconds(lane, value.bytes, value.parts);
      nth(expected, lane) += costs_.transfer_seconds(lane, expected_bytes(value.bytes, guard.chance), value.parts);
      guards.push_back(guard);
    }
    const double loading = *std::max_element(all.begin(), all.end());
    const double left = *std::max_element(expected.begin(), expected.end());
    // A load behind a router may run beside nothing at all.
    if (left == loading || left + computing(section) >= std::max(loading, computing(section))) return;
    auto guard = guards.begin();
    for (Stay& stay : stays) {
      if (!stay.loads) continue;
      stay.guard = *guard++;
      if (stay.guard.offsets != kNone) stay.load_before = std::max(stay.load_before, known_from(stay.guard));
    }
  }

  [[nodiscard]] double computing(size_t section) const {
    return execution_starts(facts_, placement_, costs_, sequence_, sequence_.bounds[section],
                            sequence_.bounds[section + 1])
        .back();
  }

  [[nodiscard]] int32_t known_from(const LoadGuard& guard) const { return nth(made_by_, guard.offsets) + 1; }

  // Returns the condition of a load; none if what it brings is read more than once, or at all unconditionally, or if
  // the condition is not in the device's memory by then.
  [[nodiscard]] LoadGuard guard_of_load(const Stay& stay) const {
    const Execution& reader = execution(stay.first);
    if (stay.first != stay.last || stay.stores || facts_.op(reader.op).guard_chance > kMaxChance) return {};
    const std::span<const Instance> inputs = sequence_.inputs(reader);
    const auto is_loaded = [&](Instance input) { return input == original(stay.loaded); };
    if (std::count_if(inputs.begin(), inputs.end(), is_loaded) != 1) return {};
    const std::vector<ValueId>& all = graph_.op(reader.op).inputs;  // `inputs` has less behind the first bundle
    const auto found = std::find(all.begin(), all.end(), stay.loaded);
    const std::optional<Guard> guard = guard_of(graph_, reader.op, static_cast<int>(found - all.begin()));
    if (!guard) return {};
    const Instance offsets = nth(inputs, guard->offsets);
    if (nth(made_by_, offsets) == kNone || nth(transfers_.moves, value_of(offsets)) != 0) return {};
    return {.offsets = offsets, .index = guard->index, .chance = guard->chance};
  }

  const Graph& graph_;
  const GraphFacts& facts_;
  const Placement& placement_;
  const Sequence& sequence_;
  const CostModel& costs_;
  Transfers& transfers_;
  std::vector<int32_t> made_by_;  // by instance
};

}  // namespace

void guard_loads(const Graph& graph, const GraphFacts& facts, const Placement& placement, const Sequence& sequence,
                 const CostModel& costs, Transfers& transfers) {
  const auto skips = [&](const OpFacts& op) { return op.guard_chance <= kMaxChance; };
  if (transfers.stays.empty() || std::none_of(facts.ops.begin(), facts.ops.end(), skips)) return;
  LoadGuards(graph, facts, placement, sequence, costs, transfers).run();
}

}  // namespace spillway
