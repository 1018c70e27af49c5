#include "plan/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "graph/operation.h"
#include "plan/offsets.h"

namespace spillway {
namespace {

// One production of a value: index 2 * value for the graph's own, 2 * value + 1 for the recomputed one.
using Instance = int32_t;
constexpr Instance original(ValueId value) { return 2 * value; }
constexpr Instance recomputed(ValueId value) { return 2 * value + 1; }

// A step before buffers are known.
struct Execution {
  OpId op;
  bool recompute;
  std::vector<Instance> inputs;
  std::vector<Instance> outputs;
};

// Orders executions: the graph's operations, with forward operations repeated before the backward ones that need them.
class Sequencer {
 public:
  Sequencer(const Graph& graph, std::span<const Treatment> treatment)
      : graph_(graph), treatment_(treatment), again_(graph.ops.size(), false) {}

  std::vector<Execution> run() {
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      const bool backward = graph_.op(id).phase == Phase::kBackward;
      if (backward) provide_inputs(id);
      executions_.push_back(execution(id, backward, false));
    }
    return std::move(executions_);
  }

 private:
  [[nodiscard]] bool is_recomputed(ValueId id) const {
    return treatment_[static_cast<size_t>(id)] == Treatment::kRecompute;
  }

  // `late`: it runs in the backward pass, where recomputed values stand in for the originals.
  [[nodiscard]] Execution execution(OpId id, bool late, bool recompute) const {
    Execution result{id, recompute, {}, {}};
    for (const ValueId v : graph_.op(id).inputs) {
      result.inputs.push_back(v == kNone ? kNone : late && is_recomputed(v) ? recomputed(v) : original(v));
    }
    for (const ValueId v : graph_.op(id).outputs) result.outputs.push_back(recompute ? recomputed(v) : original(v));
    return result;
  }

  // Depth first, so that a value is made again right before its first reader and its own inputs right before it.
  // The depth is bounded by the operations of a block: what leaves a block is kept.
  void provide_inputs(OpId id) {
    for (const ValueId v : graph_.op(id).inputs) {
      if (v == kNone || !is_recomputed(v)) continue;
      const OpId producer = graph_.value(v).producer;
      if (again_[static_cast<size_t>(producer)]) continue;
      again_[static_cast<size_t>(producer)] = true;
      provide_inputs(producer);
      executions_.push_back(execution(producer, true, true));
    }
  }

  const Graph& graph_;
  std::span<const Treatment> treatment_;
  std::vector<bool> again_;  // by operation: it has been run again
  std::vector<Execution> executions_;
};

// Gives every instance a buffer.
class BufferAssigner {
 public:
  BufferAssigner(const Graph& graph, std::vector<Execution> executions, int threads)
      : graph_(graph), executions_(std::move(executions)), threads_(threads) {}

  Schedule run() {
    steps_ = narrow<int32_t>(executions_.size());
    place_sections();
    place_fixed();
    find_last_reads();
    for (int32_t step = 0; step < steps_; ++step) assign(step);
    for (const ValueId id : graph_.results) schedule_.results.push_back(buffer_of(original(id)));
    return std::move(schedule_);
  }

 private:
  BufferId& buffer_of(Instance instance) { return buffers_[static_cast<size_t>(instance)]; }
  Buffer& buffer(BufferId id) { return schedule_.buffers[static_cast<size_t>(id)]; }

  BufferId new_buffer(Buffer b) {
    schedule_.buffers.push_back(std::move(b));
    return static_cast<BufferId>(schedule_.buffers.size() - 1);
  }

  void place_sections() {
    int32_t begin = 0;
    for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
      int32_t end = begin;
      while (end < steps_) {
        const Execution& next = executions_[static_cast<size_t>(end)];
        // A recomputation belongs to the backward section, whatever its operation's phase.
        if ((next.recompute ? Phase::kBackward : graph_.op(next.op).phase) != phase) break;
        ++end;
      }
      schedule_.sections.push_back({phase, begin, end});
      begin = end;
    }
  }

  void place_fixed() {
    buffers_.assign(2 * graph_.values.size(), kNone);
    schedule_.persistent.assign(graph_.values.size(), kNone);
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      const Value& value = graph_.value(id);
      if (value.producer != kNone) continue;
      const BufferId b =
          new_buffer({.bytes = value.type.bytes(), .begin = 0, .end = steps_, .fixed = true, .tenants = {{id, 0}}});
      buffer_of(original(id)) = b;
      schedule_.persistent[static_cast<size_t>(id)] = b;
    }
  }

  void find_last_reads() {
    last_read_.assign(buffers_.size(), -1);
    for (int32_t step = 0; step < steps_; ++step) {
      for (const Instance i : executions_[static_cast<size_t>(step)].inputs) {
        if (i != kNone) last_read_[static_cast<size_t>(i)] = step;
      }
    }
    for (const ValueId id : graph_.results) {
      for (const Section& section : schedule_.sections) {
        int32_t& last = last_read_[static_cast<size_t>(original(id))];
        if (section.phase == graph_.op(graph_.value(id).producer).phase) last = std::max(last, section.end);
      }
    }
  }

  void assign(int32_t step) {
    const Execution& execution = executions_[static_cast<size_t>(step)];
    const Operation& op = graph_.op(execution.op);
    Step result{.op = execution.op, .recompute = execution.recompute};
    for (const Instance i : execution.inputs) result.inputs.push_back(i == kNone ? kNone : buffer_of(i));
    for (size_t i = 0; i < execution.outputs.size(); ++i) {
      const Instance output = execution.outputs[i];
      const BufferId b = choose_buffer(step, execution, op, static_cast<int8_t>(i));
      const int32_t last = std::max(step, last_read_[static_cast<size_t>(output)]);
      buffer(b).end = std::max(buffer(b).end, std::min(last + 1, steps_));
      buffer(b).tenants.push_back({op.outputs[i], step});
      buffer_of(output) = b;
      result.outputs.push_back(b);
    }
    if (const int64_t bytes = workspace_of(graph_, execution.op, threads_); bytes > 0) {
      result.workspace = new_buffer({.bytes = bytes, .begin = step, .end = step + 1});
    }
    schedule_.steps.push_back(std::move(result));
  }

  BufferId choose_buffer(int32_t step, const Execution& execution, const Operation& op, int8_t output) {
    const ValueId value = op.outputs[static_cast<size_t>(output)];
    if (const ValueId root = graph_.persistent_root(value); root != kNone) return buffer_of(original(root));
    for (const InPlace& rule : op.def->in_place) {
      if (rule.output != output || static_cast<size_t>(rule.input) >= execution.inputs.size()) continue;
      const Instance input = execution.inputs[static_cast<size_t>(rule.input)];
      if (input != kNone && may_take(step, execution, input, graph_.value(value).type.bytes())) return buffer_of(input);
    }
    return new_buffer({.bytes = graph_.value(value).type.bytes(), .begin = step, .end = step + 1});
  }

  // Whether an output of this step may move into the buffer of `input`: dead afterwards, read once, not taken yet.
  bool may_take(int32_t step, const Execution& execution, Instance input, int64_t bytes) {
    const Buffer& b = buffer(buffer_of(input));
    if (b.fixed || b.bytes != bytes || last_read_[static_cast<size_t>(input)] != step) return false;
    if (b.tenants.back().begin == step) return false;
    return std::count(execution.inputs.begin(), execution.inputs.end(), input) == 1;
  }

  const Graph& graph_;
  std::vector<Execution> executions_;
  int threads_;
  int32_t steps_ = 0;
  std::vector<BufferId> buffers_;   // by instance
  std::vector<int32_t> last_read_;  // by instance: the last step that reads it, -1 for none
  Schedule schedule_;
};

}  // namespace

std::vector<Treatment> treat_values(const Graph& graph, std::span<const Treatment> blocks) {
  SPILLWAY_CHECK(blocks.size() == graph.blocks.size(), "{} treatments for {} blocks", blocks.size(),
                 graph.blocks.size());
  std::vector<Treatment> result(graph.values.size(), Treatment::kKeep);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.producer == kNone || value.block == kNone || value.updates != kNone) continue;
    if (graph.op(value.producer).phase == Phase::kForward) result[i] = blocks[static_cast<size_t>(value.block)];
  }
  for (const Operation& op : graph.ops) {
    if (op.phase != Phase::kForward) continue;
    for (const ValueId v : op.inputs) {
      if (v != kNone && graph.value(v).block != op.block) result[static_cast<size_t>(v)] = Treatment::kKeep;
    }
  }
  for (const ValueId v : graph.results) result[static_cast<size_t>(v)] = Treatment::kKeep;
  return result;
}

Schedule make_schedule(const Graph& graph, std::span<const Treatment> treatment, int threads) {
  return BufferAssigner(graph, Sequencer(graph, treatment).run(), threads).run();
}

std::vector<int64_t> live_bytes(const Schedule& schedule, Tier tier) {
  std::vector<int64_t> change(schedule.steps.size() + 1, 0);
  for (const Buffer& b : schedule.buffers) {
    if (b.tier != tier) continue;
    change[static_cast<size_t>(b.begin)] += align_up(b.bytes, kArenaAlignment);
    change[static_cast<size_t>(b.end)] -= align_up(b.bytes, kArenaAlignment);
  }
  std::vector<int64_t> live(schedule.steps.size());
  int64_t sum = 0;
  for (size_t step = 0; step < live.size(); ++step) live[step] = sum += change[step];
  return live;
}

}  // namespace spillway
