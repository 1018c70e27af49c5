#include "plan/moved_bytes.h"

#include "base/index.h"
#include "graph/operation.h"

namespace spillway {

MovedBytes moved_bytes(const Graph& graph, const Program& program, const PlanContext& context) {
  MovedBytes result{};
  for (const SectionRange& section : program.sections) {
    const int64_t times = context.runs_per_step(section.repeats);
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& instruction = nth(program.instructions, i);
      const bool is_copy = instruction.kind == Instruction::Kind::kCopy;
      if (!is_copy && instruction.lane != Lane::kPeer) continue;
      const Operand& moved = instruction.inputs[0];
      const MemoryClass kind = class_of_moved(graph.value(moved.value));
      const int64_t bytes = is_copy ? expected_bytes(moved.place.bytes, instruction.chance)
                                    : static_cast<int64_t>(cost_of(graph, instruction.op).sent_bytes);
      nth(nth(result, instruction.lane), kind) += times * bytes;
    }
  }
  return result;
}

}  // namespace spillway
