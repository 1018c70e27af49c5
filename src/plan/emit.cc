#include "plan/emit.h"

namespace spillway {

Program emit_program(const Graph& graph, const Schedule& schedule, std::span<const int64_t> offsets,
                     const std::array<int64_t, kTiers>& arena_bytes, int threads) {
  const auto place = [&](BufferId id) {
    const Buffer& b = schedule.buffers[static_cast<size_t>(id)];
    return Place{b.tier, offsets[static_cast<size_t>(id)], b.bytes};
  };
  const auto operands = [&](const std::vector<ValueId>& values, const std::vector<BufferId>& buffers) {
    std::vector<Operand> result;
    for (size_t i = 0; i < values.size(); ++i) {
      result.push_back(values[i] == kNone ? Operand{} : Operand{values[i], place(buffers[i])});
    }
    return result;
  };

  Program program{.sections = schedule.sections, .arena_bytes = arena_bytes, .threads = threads};
  for (const Step& step : schedule.steps) {
    const Operation& op = graph.op(step.op);
    Instruction instruction{.op = step.op,
                            .recompute = step.recompute,
                            .inputs = operands(op.inputs, step.inputs),
                            .outputs = operands(op.outputs, step.outputs)};
    if (step.workspace != kNone) instruction.workspace = place(step.workspace);
    program.instructions.push_back(std::move(instruction));
  }
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
    const BufferId b = schedule.persistent[static_cast<size_t>(id)];
    if (b != kNone) program.homes.push_back({id, place(b)});
  }
  for (size_t i = 0; i < graph.results.size(); ++i)
    program.results.push_back({graph.results[i], place(schedule.results[i])});
  return program;
}

}  // namespace spillway
