#include "report/moved_bytes.h"

namespace spillway {

MovedBytes moved_bytes(const Graph& graph, const Program& program, int64_t accumulation) {
  MovedBytes result{};
  for (const SectionRange& section : program.sections) {
    const int64_t times = section.repeats == Repeats::kStep ? 1 : accumulation;
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
      if (instruction.kind != Instruction::Kind::kCopy) continue;
      const Operand& moved = instruction.inputs[0];
      const MemoryClass kind = class_of_moved(graph.value(moved.value));
      result[static_cast<size_t>(instruction.lane)][static_cast<size_t>(kind)] += times * moved.place.bytes;
    }
  }
  return result;
}

}  // namespace spillway
