#include "plan/sequence.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/index.h"

namespace spillway {
namespace {

// Interleaves the operations of one section on two sides, each side's in their order, as if the two shared the work.
class TurnTaking {
 public:
  // `ops` are the section's, in the graph's order.
  TurnTaking(const GraphFacts& facts, const std::vector<Tier>& sites, std::span<const OpId> ops)
      : facts_(facts), touched_(facts.values.size()) {
    for (const OpId id : ops) add(id, nth(sites, id) == Tier::kHost ? 1 : 0);
  }

  // Continues with the side that has done less of its work, measured by the optimizer state that it reads.
  std::vector<OpId> run() {
    std::vector<OpId> order;
    while (can_go_on(0) || can_go_on(1)) {
      const size_t side = !can_go_on(0) || (can_go_on(1) && is_behind(1)) ? 1 : 0;
      const Turn& turn = nth(sides_, side).turns[nth(sides_, side).next++];
      nth(sides_, side).done += turn.state_bytes;
      order.push_back(turn.op);
    }
    return order;
  }

 private:
  struct Turn {
    OpId op = kNone;
    int64_t state_bytes = 0;
    size_t others = 0;  // number of the other side's operations that have to come first
  };
  struct Side {
    std::vector<Turn> turns;
    size_t next = 0;
    int64_t done = 0, all = 0;  // bytes of state
  };
  // The number of operations of either side that had come when a value was last accessed, and when it was last written.
  struct Touched {
    std::array<size_t, 2> at_all{}, to_write{};
  };

  void add(OpId id, size_t side) {
    const OpFacts& op = facts_.op(id);
    Side& own = sides_[side];
    Turn turn{.op = id};
    for (const ValueId v : facts_.inputs(op)) {
      if (v == kNone) continue;
      const ValueFacts& value = facts_.value(v);
      Touched& touched = nth(touched_, value.storage);
      turn.others = std::max(turn.others, touched.to_write[1 - side]);
      touched.at_all[side] = own.turns.size() + 1;
      if (facts_.value(value.storage).kind == ValueKind::kOptimizerState) turn.state_bytes += value.bytes;
    }
    for (const ValueId v : facts_.outputs(op)) {
      Touched& touched = nth(touched_, facts_.value(v).storage);
      turn.others = std::max(turn.others, touched.at_all[1 - side]);
      touched.at_all[side] = touched.to_write[side] = own.turns.size() + 1;
    }
    if (op.collective) {  // collectives keep their order
      turn.others = std::max(turn.others, last_collective_[1 - side]);
      last_collective_[side] = own.turns.size() + 1;
    }
    own.all += turn.state_bytes;
    own.turns.push_back(turn);
  }

  [[nodiscard]] bool can_go_on(size_t side) const {
    const Side& own = sides_[side];
    return own.next < own.turns.size() && own.turns[own.next].others <= sides_[1 - side].next;
  }
  // The share of a side without state counts as all of it.
  [[nodiscard]] bool is_behind(size_t side) const {
    const auto share = [](const Side& one) {
      return one.all == 0 ? 1.0 : static_cast<double>(one.done) / static_cast<double>(one.all);
    };
    return share(sides_[side]) < share(sides_[1 - side]);
  }

  const GraphFacts& facts_;
  std::array<Side, 2> sides_;
  std::vector<Touched> touched_;                // by storage
  std::array<size_t, 2> last_collective_ = {};  // number of operations of a side up to its last one
};

class Sequencer {
 public:
  Sequencer(const Graph& graph, const GraphFacts& facts, const Placement& placement)
      : graph_(graph),
        facts_(facts),
        sites_(placement.sites),
        recomputed_(placement.recomputed),
        again_(graph.ops.size(), 0) {}

  Sequence run() {
    sequence_.executions.reserve(2 * facts_.ops.size());
    sequence_.operands.reserve(2 * facts_.operands.size());
    for (const OpId id : order()) {
      const SectionId section = facts_.op(id).section;
      begin_sections(section);
      const bool late = !nth(graph_.sections, section).recomputable;
      if (late) provide_inputs(id);
      append(id, late, false);
    }
    begin_sections(static_cast<SectionId>(graph_.sections.size()));
    return std::move(sequence_);
  }

 private:
  [[nodiscard]] std::vector<OpId> order() const {
    std::vector<OpId> result(graph_.ops.size());
    std::iota(result.begin(), result.end(), 0);
    std::erase_if(result, [&](OpId id) { return facts_.op(id).parts == 0; });
    const auto is_on_host = [&](OpId id) { return nth(sites_, id) == Tier::kHost; };
    for (auto begin = result.begin(); begin != result.end();) {
      const SectionId section = facts_.op(*begin).section;
      const auto end = std::find_if(begin, result.end(), [&](OpId id) { return facts_.op(id).section != section; });
      const bool is_update = nth(graph_.sections, section).repeats == Repeats::kStep;
      if (is_update && std::any_of(begin, end, is_on_host) && !std::all_of(begin, end, is_on_host))
        std::copy_n(TurnTaking(facts_, sites_, {begin, end}).run().begin(), end - begin, begin);
      begin = end;
    }
    return result;
  }

  // Begins all sections up to this one.
  void begin_sections(SectionId section) {
    while (std::ssize(sequence_.bounds) <= section)
      sequence_.bounds.push_back(static_cast<int32_t>(sequence_.executions.size()));
  }
  [[nodiscard]] bool is_recomputed(ValueId id) const { return nth(recomputed_, id) != 0; }

  // Appends an execution. `late`: it runs where recomputed values stand in for the originals.
  void append(OpId id, bool late, bool recompute) {
    const OpFacts& op = facts_.op(id);
    const auto read = [&](ValueId v) {
      return v == kNone ? kNone : late && is_recomputed(v) ? recomputed(v) : original(v);
    };
    const auto written = [&](ValueId v) { return recompute ? recomputed(v) : original(v); };
    sequence_.executions.push_back(
        {.op = id,
         .recompute = recompute,
         .operands = sequence_.operands.add(facts_.inputs(op), facts_.outputs(op), read, written)});
  }

  // Recomputes depth first, so that a value is recomputed right before its first reader and its own inputs right before
  // it. The depth is bounded by the operations of a block: values that leave a block are kept.
  void provide_inputs(OpId id) {
    for (const ValueId v : facts_.inputs(facts_.op(id))) {
      if (v == kNone || !is_recomputed(v)) continue;
      const OpId producer = facts_.value(v).producer;
      if (nth(again_, producer) != 0) continue;
      if (facts_.op(producer).expert != kNone) {
        run_neighbours_again(producer);
        continue;
      }
      nth(again_, producer) = 1;
      provide_inputs(producer);
      append(producer, true, true);
    }
  }

  // Runs an operation for which experts come again, together with those that have the same experts in the group's other
  // micro-batches, which are its neighbours in the graph.
  void run_neighbours_again(OpId id) {
    OpId begin = id, end = id + 1;
    while (begin > 0 && shares_experts(begin - 1, id)) --begin;
    while (end < std::ssize(facts_.ops) && shares_experts(end, id)) ++end;
    std::vector<OpId> due;
    for (OpId one = begin; one < end; ++one) {
      if (nth(again_, one) != 0 || (one != id && !is_recomputed(facts_.outputs(facts_.op(one))[0]))) continue;
      nth(again_, one) = 1;
      due.push_back(one);
    }
    for (const OpId one : due) provide_inputs(one);
    for (const OpId one : due) append(one, true, true);
  }
  [[nodiscard]] bool shares_experts(OpId a, OpId b) const {
    return facts_.op(a).expert == facts_.op(b).expert && graph_.op(a).def == graph_.op(b).def &&
           facts_.op(a).section == facts_.op(b).section;
  }

  const Graph& graph_;
  const GraphFacts& facts_;
  const std::vector<Tier>& sites_;
  const Flags& recomputed_;
  Flags again_;  // by operation: it has been run again
  Sequence sequence_;
};

}  // namespace

Sequence make_sequence(const Graph& graph, const GraphFacts& facts, const Placement& placement) {
  return Sequencer(graph, facts, placement).run();
}

}  // namespace spillway
