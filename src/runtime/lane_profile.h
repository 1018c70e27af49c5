// Statistics of a program's lanes so far: time, bytes, the highest bytes used, and on request a timeline.
//
// Each lane's part belongs to the thread that runs the lane; the whole may be read between sections. After construction
// nothing is allocated.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/index.h"
#include "runtime/loaded_program.h"

namespace spillway {

// The cost of an instruction so far, in the runs in which its time was known (record). Of transfers that overlap on one
// lane, each is charged with the time since the one before it finished.
struct InstructionProfile {
  int64_t calls = 0;
  int64_t moves = 0;  // of them, those that moved bytes
  double seconds = 0;
};

struct LaneTotals {
  double busy_seconds = 0;  // in which the lane had work in flight
  int64_t bytes = 0;        // moved by copies, sent by collectives
};

// One execution of an instruction, in seconds since the trace began.
struct LaneEvent {
  int32_t instruction = 0;
  double start = 0, finish = 0;
};

class LaneProfile {
 public:
  // Reserves a trace for one step of `traced_micro_steps`; later events are left out.
  LaneProfile(const LoadedProgram& loaded, int64_t traced_micro_steps);

  // Records an instruction that took from `start` to `finish` by now_seconds().
  void record(Lane lane, int32_t instruction, double start, double finish);
  // Records a lane's work on a whole section whose instructions have no known times.
  void record_section(Lane lane, double start, double finish);
  // Adds time in which the compute lane waited for other lanes, at the ends of sections too.
  void add_stall(double seconds) { stall_seconds_ += seconds; }

  [[nodiscard]] int64_t traced_micro_steps() const { return traced_micro_steps_; }
  // Starts a new trace and forgets the one before.
  void start_trace();
  void stop_trace() { is_tracing_ = false; }

  [[nodiscard]] const std::vector<InstructionProfile>& instructions() const { return instructions_; }
  [[nodiscard]] LaneTotals totals(Lane lane) const { return at(lane).totals; }
  [[nodiscard]] double stall_seconds() const { return stall_seconds_; }
  // Returns the events in the order in which they finished.
  [[nodiscard]] std::span<const LaneEvent> trace(Lane lane) const { return at(lane).events; }
  // Returns the end of the highest byte that any executed instruction or home has used.
  [[nodiscard]] int64_t peak_bytes(Tier tier) const;
  // Returns the same for the time since the last call.
  [[nodiscard]] int64_t take_recent_bytes(Tier tier);

 private:
  struct alignas(64) LanePart {  // apart, since each is written by another thread
    LaneTotals totals;
    double last_finish = 0;
    std::array<int64_t, kTiers> peak_bytes{}, recent_bytes{};  // the first: of what was taken
    std::vector<LaneEvent> events;
  };
  [[nodiscard]] const LanePart& at(Lane lane) const { return nth(lanes_, lane); }

  const LoadedProgram& loaded_;
  int64_t traced_micro_steps_;
  std::vector<InstructionProfile> instructions_;
  std::array<LanePart, kLanes> lanes_;
  std::array<int64_t, kTiers> home_bytes_{};
  double stall_seconds_ = 0, trace_begin_ = 0;
  bool is_tracing_ = false;
};

}  // namespace spillway
