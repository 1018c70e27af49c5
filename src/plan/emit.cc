#include "plan/emit.h"

#include "base/index.h"
#include "plan/waits.h"

namespace spillway {
namespace {

class Emitter {
 public:
  Emitter(const Graph& graph, const Schedule& schedule, std::span<const int64_t> offsets)
      : graph_(graph), schedule_(schedule), offsets_(offsets) {}

  [[nodiscard]] Place place(BufferId id) const {
    const Buffer& b = nth(schedule_.buffers, id);
    return {b.tier, nth(offsets_, id), b.bytes};
  }

  [[nodiscard]] Instruction instruction(const Step& step) const {
    if (step.op == kNone) {
      Instruction copy{.kind = Instruction::Kind::kCopy,
                       .lane = step.lane,
                       .inputs = {{step.moved, place(schedule_.inputs(step)[0])}},
                       .outputs = {{step.moved, place(schedule_.outputs(step)[0])}},
                       .guard = step.guard.index,
                       .chance = step.guard.chance};
      if (step.guard.offsets != kNone)
        copy.inputs.push_back({value_of(step.guard.offsets), place(schedule_.inputs(step)[1])});
      return copy;
    }
    const Operation& op = graph_.op(step.op);
    Instruction result{.lane = step.lane,
                       .op = step.op,
                       .recompute = step.recompute,
                       .inputs = operands(op.inputs, schedule_.inputs(step)),
                       .outputs = operands(op.outputs, schedule_.outputs(step))};
    if (step.workspace != kNone) result.workspace = place(step.workspace);
    return result;
  }

 private:
  [[nodiscard]] std::vector<Operand> operands(const std::vector<ValueId>& values,
                                              std::span<const BufferId> buffers) const {
    std::vector<Operand> result;
    result.reserve(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      result.push_back(values[i] == kNone ? Operand{} : Operand{values[i], place(buffers[i])});
    return result;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  std::span<const int64_t> offsets_;
};

}  // namespace

Program emit_program(const Graph& graph, const Schedule& schedule, std::span<const int64_t> offsets,
                     const std::array<int64_t, kTiers>& arena_bytes, int threads) {
  Program program{.sections = schedule.sections, .arena_bytes = arena_bytes, .threads = threads};
  const Emitter emitter(graph, schedule, offsets);
  const Waits waits = find_waits(schedule, offsets);
  program.instructions.reserve(schedule.steps.size());
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    program.instructions.push_back(emitter.instruction(schedule.steps[i]));
    const std::span<const int32_t> others = waits.of(i);
    program.instructions.back().waits.assign(others.begin(), others.end());
  }
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
    const BufferId b = nth(schedule.persistent, id);
    if (b != kNone) program.homes.push_back({id, emitter.place(b)});
  }
  for (size_t i = 0; i < graph.results.size(); ++i)
    program.results.push_back({graph.results[i], emitter.place(schedule.results[i])});
  return program;
}

}  // namespace spillway
