#include "plan/sequence.h"

#include "base/index.h"

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
      begin_sections(graph_.op(id).section);
      const bool late = !graph_.section_of(id).recomputable;
      if (late) provide_inputs(id);
      append(id, late, false);
    }
    begin_sections(static_cast<SectionId>(graph_.sections.size()));
    return std::move(sequence_);
  }

 private:
  // All up to this one.
  void begin_sections(SectionId section) {
    while (std::ssize(sequence_.bounds) <= section)
      sequence_.bounds.push_back(static_cast<int32_t>(sequence_.executions.size()));
  }
  [[nodiscard]] bool is_recomputed(ValueId id) const { return nth(recomputed_, id); }

  // `late`: it runs where recomputed values stand in for the originals.
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
      if (nth(again_, producer)) continue;
      nth(again_, producer) = true;
      provide_inputs(producer);
      append(producer, true, true);
    }
  }

  const Graph& graph_;
  const std::vector<bool>& recomputed_;
  std::vector<bool> again_;  // by operation: it has been run again
  Sequence sequence_;
};

}  // namespace

Sequence make_sequence(const Graph& graph, const std::vector<bool>& recomputed_values) {
  return Sequencer(graph, recomputed_values).run();
}

}  // namespace spillway
