// What the lanes of a program have done so far: time, bytes, the highest bytes used, and on request a timeline.
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

// What an instruction has cost so far, in the runs that knew its time (record). Of transfers that overlap on one lane,
// each is charged with the time since the one before it finished.
struct InstructionProfile {
  int64_t calls = 0;
  double seconds = 0;
};

struct LaneTotals {
  double busy_seconds = 0;  // in which the lane had work in flight
  int64_t bytes = 0;        // moved by copies
};

// One execution of an instruction, in seconds since the trace began.
struct LaneEvent {
  int32_t instruction = 0;
  double start = 0, finish = 0;
};

class LaneProfile {
 public:
  // A trace has room for one step of `traced_micro_steps`; what comes after that is left out.
  LaneProfile(const LoadedProgram& loaded, int64_t traced_micro_steps);

  // An instruction that took from `start` to `finish` by now_seconds().
  void record(Lane lane, int32_t instruction, double start, double finish);
  // A lane's work of a whole section whose instructions' times nobody knows.
  void record_section(Lane lane, double start, double finish);
  // Time in which the compute lane waited for other lanes, at the ends of sections too.
  void add_stall(double seconds) { stall_seconds_ += seconds; }

  [[nodiscard]] int64_t traced_micro_steps() const { return traced_micro_steps_; }
  // Forgets the trace before.
  void start_trace();
  void stop_trace() { is_tracing_ = false; }

  [[nodiscard]] const std::vector<InstructionProfile>& instructions() const { return instructions_; }
  [[nodiscard]] LaneTotals totals(Lane lane) const { return at(lane).totals; }
  [[nodiscard]] double stall_seconds() const { return stall_seconds_; }
  // In the order of their finishing.
  [[nodiscard]] std::span<const LaneEvent> trace(Lane lane) const { return at(lane).events; }
  // The end of the highest byte that any executed instruction or home has used.
  [[nodiscard]] int64_t peak_bytes(Tier tier) const;
  // The same since this was last asked for.
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
