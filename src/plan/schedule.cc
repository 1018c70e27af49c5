#include "plan/schedule.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "plan/gathers_ahead.h"
#include "plan/groups.h"
#include "plan/guards.h"
#include "plan/offsets.h"
#include "plan/sequence.h"
#include "plan/transfers.h"

namespace spillway {
namespace {

// Assigns a buffer to every instance, in the order of execution.
class BufferAssigner {
 public:
  BufferAssigner(const Graph& graph, const GraphFacts& facts, const Placement& placement, const Sequence& sequence,
                 const Transfers& transfers)
      : graph_(graph),
        facts_(facts),
        placement_(placement),
        sequence_(sequence),
        transfers_(transfers),
        executions_(static_cast<int32_t>(sequence.executions.size())) {}

  Schedule run() {
    order_steps();
    place_sections();
    place_fixed();
    find_last_reads();
    for (const Entry& entry : order_) {
      const auto step = static_cast<int32_t>(schedule_.steps.size());
      switch (entry.kind) {
        case Entry::Kind::kLoad:
          load(step, stay(entry.index));
          break;
        case Entry::Kind::kRun:
          execute(step, entry.index);
          break;
        case Entry::Kind::kStore:
          store(step, stay(entry.index));
          break;
      }
    }
    for (const ValueId id : graph_.results)
      schedule_.results.push_back(moves(id) ? nth(homes_, id) : buffer_of(original(id)));
    return std::move(schedule_);
  }

 private:
  struct Entry {
    enum class Kind : uint8_t { kLoad, kRun, kStore };
    Kind kind;
    int32_t index;  // the index of a stay or an execution
  };

  BufferId& buffer_of(Instance instance) { return nth(buffers_, instance); }
  Buffer& buffer(BufferId id) { return nth(schedule_.buffers, id); }
  [[nodiscard]] const Execution& execution(int32_t i) const { return nth(sequence_.executions, i); }
  [[nodiscard]] const Stay& stay(int32_t i) const { return nth(transfers_.stays, i); }
  [[nodiscard]] Tier site(const Execution& e) const { return nth(placement_.sites, e.op); }
  [[nodiscard]] Tier home(ValueId v) const { return nth(placement_.homes, v); }
  [[nodiscard]] bool moves(ValueId v) const { return nth(transfers_.moves, v) != 0; }
  // Returns the first step at or after an execution's place in the order; loads that are started with it come before
  // it.
  [[nodiscard]] int32_t step_of(int32_t execution) const { return nth(begins_, execution); }
  [[nodiscard]] int32_t step_after(int32_t execution) const { return nth(runs_, execution) + 1; }
  [[nodiscard]] int32_t steps() const { return static_cast<int32_t>(order_.size()); }

  [[nodiscard]] const ValueFacts& facts(ValueId v) const { return facts_.value(v); }
  [[nodiscard]] ValueId storage_of(ValueId v) const { return facts(v).storage; }

  BufferId new_buffer(const Buffer& b) {
    schedule_.buffers.push_back(b);
    written_.push_back(b.begin);
    return static_cast<BufferId>(schedule_.buffers.size() - 1);
  }

  void order_steps() {
    const auto executions = static_cast<size_t>(executions_);
    const std::vector<Stay>& stays = transfers_.stays;
    const Groups loads(executions, stays.size(),
                       [&](size_t i) { return stays[i].loads ? stays[i].load_before : kNone; });
    const Groups stores(executions, stays.size(),
                        [&](size_t i) { return stays[i].stores ? stays[i].store_after : kNone; });
    order_.reserve(narrow<int32_t>(executions + loads.all().size() + stores.all().size()));
    begins_.reserve(executions + 1);
    runs_.reserve(executions);
    for (int32_t i = 0; i < executions_; ++i) {
      begins_.push_back(steps());
      for (const int32_t stay : nth(loads, i)) order_.push_back({Entry::Kind::kLoad, stay});
      runs_.push_back(steps());
      order_.push_back({Entry::Kind::kRun, i});
      for (const int32_t stay : nth(stores, i)) order_.push_back({Entry::Kind::kStore, stay});
    }
    begins_.push_back(steps());
  }

  void place_sections() {
    for (size_t i = 0; i < graph_.sections.size(); ++i) {
      schedule_.sections.push_back(
          {graph_.sections[i].repeats, step_of(sequence_.bounds[i]), step_of(sequence_.bounds[i + 1])});
    }
  }

  void place_fixed() {
    schedule_.steps.reserve(order_.size());
    schedule_.operands.reserve(sequence_.operands.size() + 2 * std::ssize(order_));
    schedule_.buffers.reserve(graph_.values.size() + 2 * order_.size());
    written_.reserve(graph_.values.size() + 2 * order_.size());
    buffers_.assign(2 * graph_.values.size(), kNone);
    homes_.assign(graph_.values.size(), kNone);
    schedule_.persistent.assign(graph_.values.size(), kNone);
    // Batch values come last: other graphs of the job have the same persistent values, and batch values of their own.
    for (const bool persistent : {true, false}) {
      for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
        if (facts(id).given() && facts(id).persistent == persistent && facts(id).parts > 0) place_fixed(id);
      }
    }
  }

  void place_fixed(ValueId id) {
    const BufferId b = new_buffer({.tier = home(id),
                                   .fixed = true,
                                   .meets_disk = home(id) == Tier::kDisk,
                                   .bytes = facts(id).bytes,
                                   .begin = 0,
                                   .end = steps()});
    buffer_of(original(id)) = nth(homes_, id) = nth(schedule_.persistent, id) = b;
  }

  // Finds when the present buffer of an instance is needed for the last time; for a value that moves, in its present
  // stay.
  void find_last_reads() {
    last_use_.assign(buffers_.size(), -1);
    for (int32_t i = 0; i < executions_; ++i) {
      const bool is_collective = facts_.op(execution(i).op).collective;
      for (const Instance instance : sequence_.inputs(execution(i))) {
        if (instance == kNone) continue;
        int32_t& last = nth(last_use_, instance);
        last = std::max(last, is_collective ? step_of(nth(transfers_.finished_by, i)) - 1 : nth(runs_, i));
      }
    }
    for (const ValueId id : graph_.results) {
      int32_t& last = nth(last_use_, original(id));
      const auto section = static_cast<size_t>(facts_.op(facts(id).producer).section);
      last = std::max(last, schedule_.sections[section].end - 1);
    }
    stays_ =
        Groups(graph_.values.size(), transfers_.stays.size(), [&](size_t i) { return transfers_.stays[i].storage; });
    next_stay_.assign(graph_.values.size(), 0);
  }

  // Returns the stay that holds the value at an execution.
  const Stay& stay_at(ValueId storage, int32_t execution) {
    const std::span<const int32_t> stays = nth(stays_, storage);
    size_t& next = nth(next_stay_, storage);
    while (stay(stays[next]).last < execution) ++next;
    return stay(stays[next]);
  }
  [[nodiscard]] bool is_away(const Stay& stay) const { return stay.tier != home(stay.storage); }
  // Returns one past the last step that needs the buffer of a stay.
  [[nodiscard]] int32_t end_of(const Stay& stay) const {
    return std::max(step_after(stay.last), stay.stores ? step_of(stay.stored_by) : 0);
  }
  // Returns one past the last step that needs a spilled value at its home: when its last load has reached the first
  // use.
  [[nodiscard]] int32_t home_end(ValueId storage) const {
    const Stay& last = stay(nth(stays_, storage).back());
    return step_after(is_away(last) ? last.first : last.last);
  }

  void add_transfer(ValueId value, BufferId from, BufferId to, const LoadGuard& guard = {}) {
    const Tier source = buffer(from).tier, target = buffer(to).tier;
    if (source == Tier::kDisk || target == Tier::kDisk) buffer(from).meets_disk = buffer(to).meets_disk = true;
    const std::array inputs = {from, guard.offsets == kNone ? kNone : buffer_of(guard.offsets)};
    const size_t count = guard.offsets == kNone ? 1 : 2;
    schedule_.steps.push_back({.lane = lane_between(source, target),
                               .moved = value,
                               .guard = guard,
                               .operands = schedule_.operands.add(std::span(inputs).first(count), std::array{to})});
  }

  void load(int32_t step, const Stay& stay) {
    const BufferId from = nth(homes_, stay.storage);
    const BufferId to =
        new_buffer({.tier = stay.tier, .bytes = facts(stay.storage).bytes, .begin = step, .end = end_of(stay)});
    add_transfer(stay.loaded, from, to, stay.guard);
    begin_stay(stay, to);
  }

  void begin_stay(const Stay& stay, BufferId b) {
    buffer_of(original(stay.storage)) = b;
    nth(last_use_, original(stay.storage)) = end_of(stay) - 1;
  }

  void store(int32_t step, const Stay& stay) {
    BufferId& to = nth(homes_, stay.storage);
    if (to == kNone) {
      to = new_buffer({.tier = home(stay.storage),
                       .bytes = facts(stay.storage).bytes,
                       .begin = step,
                       .end = home_end(stay.storage)});
    }
    // The newest version stands where its stay began.
    add_transfer(stay.stored, buffer_of(original(stay.storage)), to);
  }

  // Returns the buffer of an operand at an execution.
  BufferId operand_buffer(Instance instance, int32_t at) {
    const ValueId value = value_of(instance);
    if (!is_original(instance) || !moves(value)) return buffer_of(instance);
    const ValueId storage = storage_of(value);
    return is_away(stay_at(storage, at)) ? buffer_of(original(storage)) : nth(homes_, storage);
  }

  void execute(int32_t step, int32_t at) {
    const Execution& execution = this->execution(at);
    Step result{.op = execution.op,
                .recompute = execution.recompute,
                .lane = lane_of(facts_.op(execution.op), site(execution))};
    int8_t output = 0;
    result.operands = schedule_.operands.add(
        sequence_.inputs(execution), sequence_.outputs(execution),
        [&](Instance input) { return input == kNone ? kNone : operand_buffer(input, at); },
        [&](Instance) { return place_output(step, at, execution, output++); });
    if (const int64_t bytes = facts_.op(execution.op).workspace_bytes; bytes > 0) {
      result.workspace = new_buffer({.tier = site(execution), .bytes = bytes, .begin = step, .end = step + 1});
    }
    schedule_.steps.push_back(result);
  }

  BufferId place_output(int32_t step, int32_t at, const Execution& execution, int8_t output) {
    const Instance instance = nth(sequence_.outputs(execution), output);
    const ValueId value = value_of(instance), storage = storage_of(value);
    const bool moving = instance == original(value) && moves(value);
    const Stay* stay = moving ? &stay_at(storage, at) : nullptr;
    BufferId b;
    if (facts(value).persistent) {
      b = persistent_buffer(step, at, storage, stay);
    } else {
      b = choose_buffer(step, execution, output);
      if (stay && is_away(*stay)) nth(last_use_, instance) = end_of(*stay) - 1;
      if (stay && !is_away(*stay)) nth(homes_, value) = b;
      const int32_t last =
          std::max({step, nth(last_use_, instance), stay && !is_away(*stay) ? home_end(value) - 1 : 0});
      buffer(b).end = std::max(buffer(b).end, std::min(last + 1, steps()));
    }
    buffer_of(instance) = b;
    nth(written_, b) = step;
    return b;
  }

  // Writes a persistent value where its stay is; a stay that begins by writing makes its own buffer.
  BufferId persistent_buffer(int32_t step, int32_t at, ValueId storage, const Stay* stay) {
    if (!stay || !is_away(*stay)) return nth(homes_, storage);
    if (stay->first == at && !stay->loads) {
      begin_stay(*stay,
                 new_buffer({.tier = stay->tier, .bytes = facts(storage).bytes, .begin = step, .end = end_of(*stay)}));
    }
    return buffer_of(original(storage));
  }

  BufferId choose_buffer(int32_t step, const Execution& execution, int8_t output) {
    const std::span<const Instance> inputs = sequence_.inputs(execution);
    const int64_t bytes = facts(value_of(nth(sequence_.outputs(execution), output))).bytes;
    for (const InPlace& rule : facts_.op(execution.op).in_place) {
      if (rule.output != output || static_cast<size_t>(rule.input) >= inputs.size()) continue;
      const Instance input = nth(inputs, rule.input);
      if (input != kNone && may_take(step, execution, input, bytes)) return buffer_of(input);
    }
    return new_buffer({.tier = site(execution), .bytes = bytes, .begin = step, .end = step + 1});
  }

  // Returns true if an output of this step may move into the buffer of `input`: dead afterwards, read once, not taken
  // yet.
  bool may_take(int32_t step, const Execution& execution, Instance input, int64_t bytes) {
    if (facts(value_of(input)).persistent) return false;
    const BufferId id = buffer_of(input);
    const Buffer& b = buffer(id);
    if (b.fixed || b.bytes != bytes || b.tier != site(execution)) return false;
    if (nth(last_use_, input) != step || nth(written_, id) == step) return false;
    const std::span<const Instance> inputs = sequence_.inputs(execution);
    return std::count(inputs.begin(), inputs.end(), input) == 1;
  }

  const Graph& graph_;
  const GraphFacts& facts_;
  const Placement& placement_;
  const Sequence& sequence_;
  const Transfers& transfers_;
  int32_t executions_;
  std::vector<Entry> order_;
  std::vector<int32_t> begins_, runs_;  // by execution: its steps begin here; it runs itself here
  std::vector<BufferId> buffers_;       // by instance
  std::vector<BufferId> homes_;         // by value: where it lives between stays
  std::vector<int32_t> last_use_;       // by instance: the last step that needs its buffer, -1 for none
  std::vector<int32_t> written_;        // by buffer: the last step that has put a value there
  Groups stays_;                        // by storage, in order
  std::vector<size_t> next_stay_;       // by storage
  Schedule schedule_;
};

}  // namespace

int64_t Buffer::alignment() const { return meets_disk ? kDiskAlignment : kArenaAlignment; }
int64_t Buffer::padded_bytes() const {
  if (tier == Tier::kFiles) return bytes;
  return meets_disk ? align_up(bytes, kDiskAlignment) : align_up(bytes, kArenaAlignment);
}

Schedule make_schedule(const Graph& graph, const GraphFacts& facts, const Placement& placement, Overlap overlap,
                       const CostModel& costs) {
  Sequence sequence = make_sequence(graph, facts, placement);
  run_gathers_ahead(facts, placement, costs, overlap, sequence);
  Transfers transfers = plan_transfers(graph, facts, placement, sequence, costs, overlap);
  guard_loads(graph, facts, placement, sequence, costs, transfers);
  return BufferAssigner(graph, facts, placement, sequence, transfers).run();
}

std::array<std::vector<int64_t>, kTiers> live_bytes(const Schedule& schedule) {
  // The vectors hold first the changes, then their running sums.
  std::array<std::vector<int64_t>, kTiers> live;
  for (std::vector<int64_t>& tier : live) tier.resize(schedule.steps.size() + 1);
  for (const Buffer& b : schedule.buffers) {
    std::vector<int64_t>& tier = nth(live, b.tier);
    const int64_t bytes = b.padded_bytes();
    nth(tier, b.begin) += bytes;
    nth(tier, b.end) -= bytes;
  }
  for (std::vector<int64_t>& tier : live) {
    std::partial_sum(tier.begin(), tier.end(), tier.begin());
    tier.pop_back();
  }
  return live;
}

}  // namespace spillway
