#include "plan/simulate.h"

#include <algorithm>
#include <vector>

namespace spillway {
namespace {

double seconds_of(const Instruction& instruction, const CostModel& costs) {
  if (instruction.kind == Instruction::Kind::kRun) return costs.operation_seconds(instruction.op);
  return costs.transfer_seconds(instruction.lane, instruction.inputs[0].place.bytes);
}

}  // namespace

Simulation simulate(const Program& program, const CostModel& costs, std::vector<LaneTime>* timeline) {
  Simulation result;
  std::vector<double> finished(program.instructions.size(), 0);
  if (timeline) timeline->assign(program.instructions.size(), {});
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
      const double seconds = seconds_of(instruction, costs);
      lane_free[lane] = finished[static_cast<size_t>(i)] = start + seconds;
      if (timeline) (*timeline)[static_cast<size_t>(i)] = {start - section_start, start + seconds - section_start};
      result.lanes[lane].busy_seconds += seconds;
      if (instruction.kind == Instruction::Kind::kCopy)
        result.lanes[lane].bytes += static_cast<double>(instruction.inputs[0].place.bytes);
    }
    result.stall_seconds += *std::max_element(lane_free.begin(), lane_free.end()) - lane_free[0];
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
