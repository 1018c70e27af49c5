#include "plan/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "graph/operation.h"
#include "plan/offsets.h"
#include "plan/sequence.h"
#include "plan/transfers.h"

namespace spillway {
namespace {

// Gives every instance a buffer, in the order in which everything happens.
class BufferAssigner {
 public:
  BufferAssigner(const Graph& graph, const Placement& placement, const Sequence& sequence, const Transfers& transfers,
                 std::span<const int64_t> workspaces)
      : graph_(graph),
        placement_(placement),
        sequence_(sequence),
        transfers_(transfers),
        workspaces_(workspaces),
        executions_(narrow<int32_t>(std::ssize(sequence.executions))) {}

  Schedule run() {
    order_steps();
    place_sections();
    place_fixed();
    find_last_reads();
    for (const Entry& entry : order_) {
      const auto step = narrow<int32_t>(std::ssize(schedule_.steps));
      switch (entry.kind) {
        case Entry::Kind::kLoad:
          load(step, transfers_.stays[static_cast<size_t>(entry.index)]);
          break;
        case Entry::Kind::kRun:
          execute(step, entry.index);
          break;
        case Entry::Kind::kStore:
          store(step, transfers_.stays[static_cast<size_t>(entry.index)]);
          break;
      }
    }
    for (const ValueId id : graph_.results)
      schedule_.results.push_back(moves(id) ? homes_[static_cast<size_t>(id)] : buffer_of(original(id)));
    return std::move(schedule_);
  }

 private:
  struct Entry {
    enum class Kind : uint8_t { kLoad, kRun, kStore };
    Kind kind;
    int32_t index;  // of a stay or an execution
  };

  BufferId& buffer_of(Instance instance) { return buffers_[static_cast<size_t>(instance)]; }
  Buffer& buffer(BufferId id) { return schedule_.buffers[static_cast<size_t>(id)]; }
  [[nodiscard]] const Execution& execution(int32_t i) const { return sequence_.executions[static_cast<size_t>(i)]; }
  [[nodiscard]] Tier site(const Execution& e) const { return placement_.sites[static_cast<size_t>(e.op)]; }
  [[nodiscard]] Tier home(ValueId v) const { return placement_.homes[static_cast<size_t>(v)]; }
  [[nodiscard]] bool moves(ValueId v) const { return transfers_.moves[static_cast<size_t>(v)]; }
  // The first step at or after an execution's place in the order; loads that are started with it come before it.
  [[nodiscard]] int32_t step_of(int32_t execution) const { return begins_[static_cast<size_t>(execution)]; }
  [[nodiscard]] int32_t step_after(int32_t execution) const { return runs_[static_cast<size_t>(execution)] + 1; }
  [[nodiscard]] int32_t steps() const { return narrow<int32_t>(std::ssize(order_)); }

  BufferId new_buffer(Buffer b) {
    schedule_.buffers.push_back(std::move(b));
    return static_cast<BufferId>(schedule_.buffers.size() - 1);
  }

  void order_steps() {
    std::vector<std::vector<int32_t>> loads(static_cast<size_t>(executions_)), stores(static_cast<size_t>(executions_));
    for (int32_t i = 0; i < std::ssize(transfers_.stays); ++i) {
      const Stay& stay = transfers_.stays[static_cast<size_t>(i)];
      if (stay.loads) loads[static_cast<size_t>(stay.load_before)].push_back(i);
      if (stay.stores) stores[static_cast<size_t>(stay.store_after)].push_back(i);
    }
    for (int32_t i = 0; i < executions_; ++i) {
      begins_.push_back(steps());
      for (const int32_t stay : loads[static_cast<size_t>(i)]) order_.push_back({Entry::Kind::kLoad, stay});
      runs_.push_back(steps());
      order_.push_back({Entry::Kind::kRun, i});
      for (const int32_t stay : stores[static_cast<size_t>(i)]) order_.push_back({Entry::Kind::kStore, stay});
    }
    begins_.push_back(steps());
  }

  void place_sections() {
    for (size_t i = 0; i < 3; ++i) {
      schedule_.sections.push_back(
          {static_cast<Phase>(i), step_of(sequence_.bounds[i]), step_of(sequence_.bounds[i + 1])});
    }
  }

  void place_fixed() {
    schedule_.steps.reserve(order_.size());
    schedule_.buffers.reserve(graph_.values.size() + 2 * order_.size());
    buffers_.assign(2 * graph_.values.size(), kNone);
    homes_.assign(graph_.values.size(), kNone);
    schedule_.persistent.assign(graph_.values.size(), kNone);
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      const Value& value = graph_.value(id);
      if (value.producer != kNone) continue;
      const BufferId b = new_buffer({.tier = home(id),
                                     .bytes = value.type.bytes(),
                                     .begin = 0,
                                     .end = steps(),
                                     .fixed = true,
                                     .meets_disk = home(id) == Tier::kDisk,
                                     .tenants = {{id, 0}}});
      buffer_of(original(id)) = homes_[static_cast<size_t>(id)] = schedule_.persistent[static_cast<size_t>(id)] = b;
    }
  }

  // When the present buffer of an instance is needed for the last time: of what moves, in its present stay.
  void find_last_reads() {
    last_use_.assign(buffers_.size(), -1);
    for (int32_t i = 0; i < executions_; ++i) {
      for (const Instance instance : sequence_.inputs(execution(i))) {
        if (instance != kNone) last_use_[static_cast<size_t>(instance)] = runs_[static_cast<size_t>(i)];
      }
    }
    for (const ValueId id : graph_.results) {
      int32_t& last = last_use_[static_cast<size_t>(original(id))];
      const auto section = static_cast<size_t>(graph_.op(graph_.value(id).producer).phase);
      last = std::max(last, schedule_.sections[section].end - 1);
    }
    for (const Stay& stay : transfers_.stays) {
      if (stays_.size() <= static_cast<size_t>(stay.storage)) stays_.resize(graph_.values.size());
      stays_[static_cast<size_t>(stay.storage)].push_back(&stay);
    }
    next_stay_.assign(graph_.values.size(), 0);
  }

  // The stay that holds the value at an execution.
  const Stay& stay_at(ValueId storage, int32_t execution) {
    const auto& stays = stays_[static_cast<size_t>(storage)];
    size_t& next = next_stay_[static_cast<size_t>(storage)];
    while (stays[next]->last < execution) ++next;
    return *stays[next];
  }
  [[nodiscard]] ValueId storage_of(ValueId v) const {
    const ValueId root = graph_.persistent_root(v);
    return root == kNone ? v : root;
  }
  [[nodiscard]] bool is_away(const Stay& stay) const { return stay.tier != home(stay.storage); }
  // One past the last step that needs the buffer of a stay.
  [[nodiscard]] int32_t end_of(const Stay& stay) const {
    return std::max(step_after(stay.last), stay.stores ? step_of(stay.stored_by) : 0);
  }
  // One past the last step that needs a spilled value at its home: when its last load has reached the first use.
  [[nodiscard]] int32_t home_end(ValueId storage) const {
    const Stay& last = *stays_[static_cast<size_t>(storage)].back();
    return step_after(is_away(last) ? last.first : last.last);
  }

  void add_transfer(ValueId value, BufferId from, BufferId to) {
    const Tier source = buffer(from).tier, target = buffer(to).tier;
    if (source == Tier::kDisk || target == Tier::kDisk) buffer(from).meets_disk = buffer(to).meets_disk = true;
    schedule_.steps.push_back(
        {.lane = lane_between(source, target), .moved = value, .inputs = {from}, .outputs = {to}});
  }

  void load(int32_t step, const Stay& stay) {
    const BufferId from = homes_[static_cast<size_t>(stay.storage)];
    const BufferId to = new_buffer({.tier = stay.tier,
                                    .bytes = graph_.value(stay.storage).type.bytes(),
                                    .begin = step,
                                    .end = end_of(stay),
                                    .tenants = {{stay.loaded, step}}});
    add_transfer(stay.loaded, from, to);
    begin_stay(stay, to);
  }

  void begin_stay(const Stay& stay, BufferId b) {
    buffer_of(original(stay.storage)) = b;
    last_use_[static_cast<size_t>(original(stay.storage))] = end_of(stay) - 1;
  }

  void store(int32_t step, const Stay& stay) {
    BufferId& to = homes_[static_cast<size_t>(stay.storage)];
    if (to == kNone) {
      to = new_buffer({.tier = home(stay.storage),
                       .bytes = graph_.value(stay.storage).type.bytes(),
                       .begin = step,
                       .end = home_end(stay.storage),
                       .tenants = {{stay.stored, step}}});
    }
    // The newest version stands where its stay began.
    add_transfer(stay.stored, buffer_of(original(stay.storage)), to);
  }

  // Where an operand is at an execution.
  BufferId operand_buffer(Instance instance, int32_t at) {
    const ValueId value = instance / 2;
    if (instance != original(value)) return buffer_of(instance);
    const ValueId storage = storage_of(value);
    if (!moves(value)) return buffer_of(original(storage));
    return is_away(stay_at(storage, at)) ? buffer_of(original(storage)) : homes_[static_cast<size_t>(storage)];
  }

  void execute(int32_t step, int32_t at) {
    const Execution& execution = this->execution(at);
    Step result{.op = execution.op,
                .recompute = execution.recompute,
                .lane = site(execution) == Tier::kHost ? Lane::kHostCompute : Lane::kCompute};
    const size_t inputs = sequence_.inputs(execution).size(), outputs = sequence_.outputs(execution).size();
    result.inputs.reserve(inputs);
    result.outputs.reserve(outputs);
    for (const Instance i : sequence_.inputs(execution))
      result.inputs.push_back(i == kNone ? kNone : operand_buffer(i, at));
    for (size_t i = 0; i < outputs; ++i)
      result.outputs.push_back(place_output(step, at, execution, static_cast<int8_t>(i)));
    if (const int64_t bytes = workspaces_[static_cast<size_t>(execution.op)]; bytes > 0) {
      result.workspace = new_buffer({.tier = site(execution), .bytes = bytes, .begin = step, .end = step + 1});
    }
    schedule_.steps.push_back(std::move(result));
  }

  BufferId place_output(int32_t step, int32_t at, const Execution& execution, int8_t output) {
    const Instance instance = sequence_.outputs(execution)[static_cast<size_t>(output)];
    const ValueId value = instance / 2, storage = storage_of(value);
    const bool moving = instance == original(value) && moves(value);
    const Stay* stay = moving ? &stay_at(storage, at) : nullptr;
    BufferId b;
    if (graph_.persistent_root(value) != kNone) {
      b = persistent_buffer(step, at, storage, stay);
    } else {
      b = choose_buffer(step, execution, output);
      buffer_of(instance) = b;
      if (stay && is_away(*stay)) last_use_[static_cast<size_t>(instance)] = end_of(*stay) - 1;
      if (stay && !is_away(*stay)) homes_[static_cast<size_t>(value)] = b;
      const int32_t last =
          std::max({step, last_use_[static_cast<size_t>(instance)], stay && !is_away(*stay) ? home_end(value) - 1 : 0});
      buffer(b).end = std::max(buffer(b).end, std::min(last + 1, steps()));
    }
    buffer(b).tenants.push_back({value, step});
    return b;
  }

  // A persistent value is written where its stay is; a stay that begins by writing makes its own buffer.
  BufferId persistent_buffer(int32_t step, int32_t at, ValueId storage, const Stay* stay) {
    if (!stay || !is_away(*stay)) return homes_[static_cast<size_t>(storage)];
    if (stay->first == at && !stay->loads) {
      begin_stay(
          *stay,
          new_buffer(
              {.tier = stay->tier, .bytes = graph_.value(storage).type.bytes(), .begin = step, .end = end_of(*stay)}));
    }
    return buffer_of(original(storage));
  }

  BufferId choose_buffer(int32_t step, const Execution& execution, int8_t output) {
    const Operation& op = graph_.op(execution.op);
    const int64_t bytes = graph_.value(op.outputs[static_cast<size_t>(output)]).type.bytes();
    for (const InPlace& rule : op.def->in_place) {
      const std::span<const Instance> inputs = sequence_.inputs(execution);
      if (rule.output != output || static_cast<size_t>(rule.input) >= inputs.size()) continue;
      const Instance input = inputs[static_cast<size_t>(rule.input)];
      if (input != kNone && may_take(step, execution, input, bytes)) return buffer_of(input);
    }
    return new_buffer({.tier = site(execution), .bytes = bytes, .begin = step, .end = step + 1});
  }

  // Whether an output of this step may move into the buffer of `input`: dead afterwards, read once, not taken yet.
  bool may_take(int32_t step, const Execution& execution, Instance input, int64_t bytes) {
    if (graph_.persistent_root(input / 2) != kNone) return false;
    const Buffer& b = buffer(buffer_of(input));
    if (b.fixed || b.bytes != bytes || b.tier != site(execution)) return false;
    if (last_use_[static_cast<size_t>(input)] != step || b.tenants.back().begin == step) return false;
    const std::span<const Instance> inputs = sequence_.inputs(execution);
    return std::count(inputs.begin(), inputs.end(), input) == 1;
  }

  const Graph& graph_;
  const Placement& placement_;
  const Sequence& sequence_;
  const Transfers& transfers_;
  std::span<const int64_t> workspaces_;
  int32_t executions_;
  std::vector<Entry> order_;
  std::vector<int32_t> begins_, runs_;           // by execution: its steps begin here; it runs itself here
  std::vector<BufferId> buffers_;                // by instance
  std::vector<BufferId> homes_;                  // by value: where it lives between stays
  std::vector<int32_t> last_use_;                // by instance: the last step that needs its buffer, -1 for none
  std::vector<std::vector<const Stay*>> stays_;  // by storage, in order
  std::vector<size_t> next_stay_;                // by storage
  Schedule schedule_;
};

}  // namespace

int64_t Buffer::alignment() const { return meets_disk ? kDiskAlignment : kArenaAlignment; }
int64_t Buffer::padded_bytes() const { return tier == Tier::kFiles ? bytes : align_up(bytes, alignment()); }

Schedule make_schedule(const Graph& graph, const Placement& placement, Overlap overlap, const CostModel& costs,
                       std::span<const int64_t> workspaces) {
  const Sequence sequence = make_sequence(graph, placement.recomputed);
  const Transfers transfers = plan_transfers(graph, placement, sequence, costs, overlap);
  return BufferAssigner(graph, placement, sequence, transfers, workspaces).run();
}

std::vector<int64_t> live_bytes(const Schedule& schedule, Tier tier) {
  std::vector<int64_t> change(schedule.steps.size() + 1, 0);
  for (const Buffer& b : schedule.buffers) {
    if (b.tier != tier) continue;
    change[static_cast<size_t>(b.begin)] += b.padded_bytes();
    change[static_cast<size_t>(b.end)] -= b.padded_bytes();
  }
  std::vector<int64_t> live(schedule.steps.size());
  int64_t sum = 0;
  for (size_t step = 0; step < live.size(); ++step) live[step] = sum += change[step];
  return live;
}

}  // namespace spillway
