#include "plan/simulate.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "graph/operation.h"

namespace spillway {
namespace {

double seconds_of(const Graph& graph, const Instruction& instruction, const Machine& machine) {
  if (instruction.kind == Instruction::Kind::kCopy) {
    const double rate = machine.link_bytes_per_second[static_cast<size_t>(instruction.lane)];
    SPILLWAY_CHECK(rate > 0, "a copy on lane {}, which this machine does not have", name_of(instruction.lane));
    return static_cast<double>(instruction.inputs[0].place.bytes) / rate;
  }
  const Cost cost = cost_of(graph, instruction.op);
  const double memory = cost.bytes / machine.memory_bytes_per_second;
  if (!cost.matrix_product) return machine.operation_seconds + memory;
  const DType dtype = cost.in_f32 ? DType::kF32 : graph.value(graph.op(instruction.op).inputs[0]).type.dtype;
  return machine.operation_seconds + std::max(memory, cost.flops / machine.matrix_flops(dtype));
}

}  // namespace

Simulation simulate(const Graph& graph, const Program& program, const Machine& machine) {
  Simulation result;
  std::vector<double> finished(program.instructions.size(), 0);
  double section_start = 0;
  for (const Section& section : program.sections) {
    std::array<double, kLanes> lane_free;
    lane_free.fill(section_start);
    for (int32_t i = section.begin; i < section.end; ++i) {
      const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
      const auto lane = static_cast<size_t>(instruction.lane);
      double start = lane_free[lane];
      for (const int32_t other : instruction.waits) start = std::max(start, finished[static_cast<size_t>(other)]);
      if (instruction.lane == Lane::kCompute) result.stall_seconds += start - lane_free[lane];
      const double seconds = seconds_of(graph, instruction, machine);
      lane_free[lane] = finished[static_cast<size_t>(i)] = start + seconds;
      result.lanes[lane].busy_seconds += seconds;
      if (instruction.kind == Instruction::Kind::kCopy)
        result.lanes[lane].bytes += static_cast<double>(instruction.inputs[0].place.bytes);
    }
    const double section_end = *std::max_element(lane_free.begin(), lane_free.end());
    (section.phase == Phase::kUpdate ? result.update_seconds : result.micro_step_seconds) +=
        section_end - section_start;
    section_start = section_end;
  }
  const auto busiest =
      std::max_element(result.lanes.begin(), result.lanes.end(),
                       [](const LaneUse& a, const LaneUse& b) { return a.busy_seconds < b.busy_seconds; });
  result.bottleneck = static_cast<Lane>(busiest - result.lanes.begin());
  return result;
}

}  // namespace spillway
