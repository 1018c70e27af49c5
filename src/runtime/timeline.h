// When each instruction of one step runs: as the simulator predicts it, and as a trace of the executor shows it.
//
// With several micro-batches, a timeline shows one of them and the update, so that the two can be laid side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/simulate.h"
#include "runtime/lane_profile.h"

namespace spillway {

// The compute lane stands still because another lane has not finished.
struct Stall {
  double start = 0, finish = 0;
  int32_t waits_for = 0;  // the instruction that finished last, of those that were waited for
  int32_t next = kNone;   // what the compute lane goes on with; kNone: its section ends
};

struct Timeline {
  std::vector<LaneTime> times;  // by instruction, in seconds since the step began
  std::vector<Stall> stalls;
  double seconds = 0;  // to the end of the last instruction
};

// As the simulator plays the program.
[[nodiscard]] Timeline predicted_timeline(const Program& program, const CostModel& costs);

// When each instruction of a trace ran last, on the trace's clock: in the last micro-batch, and in the update. False
// where some have no event. Allocates nothing. REQUIRES: one entry an instruction.
[[nodiscard]] bool read_trace(const LaneProfile& lanes, std::span<LaneTime> times);
// The timeline of such a trace.
[[nodiscard]] Timeline measured_timeline(const Program& program, std::vector<LaneTime> times);

// The sections one behind the other from `begin` on, each as many times as long as its factor says: one run of it in
// the place of as many. REQUIRES: one factor a section.
[[nodiscard]] Timeline stretched(const Program& program, const Timeline& timeline, double begin,
                                 std::span<const double> factors);

// By instruction: when the computation reaches its place in the program, in seconds. Never falls. A transfer may run
// earlier or later than that; what is live at its place is live then.
[[nodiscard]] std::vector<double> clock_of(const Program& program, const Timeline& timeline);

}  // namespace spillway
