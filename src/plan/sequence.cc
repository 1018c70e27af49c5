#include "plan/sequence.h"

namespace spillway {
namespace {

class Sequencer {
 public:
  Sequencer(const Graph& graph, const std::vector<bool>& recomputed_values)
      : graph_(graph), recomputed_(recomputed_values), again_(graph.ops.size(), false) {}

  Sequence run() {
    sequence_.executions.reserve(2 * graph_.ops.size());
    sequence_.operands.reserve(12 * graph_.ops.size());
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      const Phase phase = graph_.op(id).phase;
      begin_sections(static_cast<size_t>(phase));
      if (phase == Phase::kBackward) provide_inputs(id);
      append(id, phase == Phase::kBackward, false);
    }
    begin_sections(sequence_.bounds.size() - 1);
    return std::move(sequence_);
  }

 private:
  void begin_sections(size_t section) {
    while (section_ < section) sequence_.bounds[++section_] = static_cast<int32_t>(sequence_.executions.size());
  }
  [[nodiscard]] bool is_recomputed(ValueId id) const { return recomputed_[static_cast<size_t>(id)]; }

  // `late`: it runs in the backward pass, where recomputed values stand in for the originals.
  void append(OpId id, bool late, bool recompute) {
    const auto end = [&] { return static_cast<int32_t>(sequence_.operands.size()); };
    Execution result{.op = id, .recompute = recompute, .first_operand = end()};
    for (const ValueId v : graph_.op(id).inputs)
      sequence_.operands.push_back(v == kNone ? kNone : late && is_recomputed(v) ? recomputed(v) : original(v));
    result.first_output = end();
    for (const ValueId v : graph_.op(id).outputs) sequence_.operands.push_back(recompute ? recomputed(v) : original(v));
    result.end = end();
    sequence_.executions.push_back(result);
  }

  // Depth first, so that a value is recomputed right before its first reader and its own inputs right before it.
  // The depth is bounded by the operations of a block: what leaves a block is kept.
  void provide_inputs(OpId id) {
    for (const ValueId v : graph_.op(id).inputs) {
      if (v == kNone || !is_recomputed(v)) continue;
      const OpId producer = graph_.value(v).producer;
      if (again_[static_cast<size_t>(producer)]) continue;
      again_[static_cast<size_t>(producer)] = true;
      provide_inputs(producer);
      append(producer, true, true);
    }
  }

  const Graph& graph_;
  const std::vector<bool>& recomputed_;
  std::vector<bool> again_;  // by operation: it has been run again
  Sequence sequence_;
  size_t section_ = 0;
};

}  // namespace

Sequence make_sequence(const Graph& graph, const std::vector<bool>& recomputed_values) {
  return Sequencer(graph, recomputed_values).run();
}

}  // namespace spillway
