// The time of each instruction in one step: as the simulator predicts it, and as a trace of the executor shows it.
//
// With several micro-batches, a timeline shows one of them and the update, so that the two can be laid side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/simulate.h"
#include "runtime/lane_profile.h"

namespace spillway {

// An interval in which the compute lane waits for another lane.
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

// Returns the timeline that the simulator predicts for the program.
[[nodiscard]] Timeline predicted_timeline(const Program& program, const CostModel& costs);

// Reads the last times of each instruction from a trace, on the trace's clock: those of the last micro-batch, and of
// the update. Returns false if some have no event. Allocates nothing. REQUIRES: times.size() is the number of
// instructions.
[[nodiscard]] bool read_trace(const LaneProfile& lanes, std::span<LaneTime> times);
// Returns the timeline of such a trace.
[[nodiscard]] Timeline measured_timeline(const Program& program, std::vector<LaneTime> times);

// Returns the sections one after the other from `begin` on, each stretched by its factor: one run in place of that
// many. REQUIRES: one factor per section.
[[nodiscard]] Timeline stretched(const Program& program, const Timeline& timeline, double begin,
                                 std::span<const double> factors);

// Returns for each instruction when the computation reaches its place in the program, in seconds; never decreasing. A
// transfer may run earlier or later than that, but memory that is live at its place is live then.
[[nodiscard]] std::vector<double> clock_of(const Program& program, const Timeline& timeline);

}  // namespace spillway
