#include "plan/moved_bytes.h"

#include "base/index.h"

namespace spillway {

MovedBytes moved_bytes(const Graph& graph, const Program& program, const PlanContext& context) {
  MovedBytes result{};
  for (const SectionRange& section : program.sections) {
    const int64_t times = context.runs_per_step(section.repeats);
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& instruction = nth(program.instructions, i);
      if (instruction.kind != Instruction::Kind::kCopy) continue;
      const Operand& moved = instruction.inputs[0];
      const MemoryClass kind = class_of_moved(graph.value(moved.value));
      nth(nth(result, instruction.lane), kind) += times * moved.place.bytes;
    }
  }
  return result;
}

}  // namespace spillway
