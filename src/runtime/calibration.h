// What a run finds out about the machine while it trains, for the next plan: an operation alone on scratch memory is
// not quite what it is in a step, and a disk for three seconds not what it is for an hour.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/machine.h"
#include "plan/simulate.h"
#include "runtime/lane_profile.h"

namespace spillway {

class Calibration {
 public:
  // Makes room, so that noting steps allocates nothing. The program is borrowed. `machine` is what it was planned for.
  Calibration(const Graph& graph, const Program& program, const Machine& machine);

  // Before and after a step of full streams, which has been traced; on the compute lane's thread. The first steps do
  // not count, nor do those in which that thread wanted a CPU and had none.
  void begin_step(const LaneProfile& lanes) { begin_step(lanes.stall_seconds()); }
  void add_step(const LaneProfile& lanes);
  // The same of one that ran at these times, by instruction.
  void add_step(std::span<const LaneTime> times);
  // Moves what the machine says of the run's operations and lanes towards the medians over the steps: a part of the way
  // only where that is far, so that one disturbed run does little harm, and never farther from what was measured than
  // by half of it, however many runs agree. False where there were too few steps, or where their times differ as they
  // do beside other work. Lanes that move less than 16 MiB teach nothing, nor do disk lanes if the machine's were
  // measured on other disks.
  [[nodiscard]] bool improve(Machine& machine) const;

  // The two halves of the above that need no profile: `stall_seconds` is how long compute has waited so far. Whether
  // the calling thread has had a CPU since begin_step(), but for the time in which it waited.
  void begin_step(double stall_seconds);
  [[nodiscard]] bool had_cpu(double stall_seconds) const;

 private:
  // What is measured together: the operations of one signature on one lane, or the transfers of a lane.
  struct Group {
    std::string signature;  // empty: transfers
    Lane lane = Lane::kCompute;
    double seconds = 0, amount = 0;  // of the step at hand: calls, or bytes
    std::vector<double> samples;     // by step: seconds per call or per byte
  };

  // When the lane turned to an instruction: transfers may be under way while an earlier one is waited for.
  [[nodiscard]] double begin_of(std::span<const LaneTime> times, size_t lane, size_t index) const;
  // What the lane's instruction from `time.start` on would take if no other lane worked meanwhile. REQUIRES: a lane's
  // instructions are asked for in their order, after passed_ has been cleared.
  [[nodiscard]] double undisturbed_seconds(std::span<const LaneTime> times, size_t lane, const LaneTime& time);
  // The same of a transfer, without the latency behind it: by that much the lane is free earlier.
  [[nodiscard]] double transfer_seconds(std::span<const LaneTime> times, size_t lane, size_t index);

  const Program& program_;
  std::array<std::array<double, kLanes>, kLanes> shares_{};  // of its speed that a lane loses while another is busy
  std::array<double, kLanes> latency_seconds_;
  std::string disks_;
  std::vector<Group> groups_;
  std::vector<int32_t> group_of_;                          // by instruction
  std::array<std::vector<int32_t>, kLanes> instructions_;  // by lane, in their order
  std::array<size_t, kLanes> passed_{};  // by lane: how many instructions had finished when the present one began
  std::vector<LaneTime> trace_;
  std::vector<double> step_seconds_;  // of the steps that count
  bool computes_here_;                // the compute lane is this computer's CPU
  double wall_begin_ = 0, cpu_begin_ = 0, stall_begin_ = 0;
  int64_t steps_ = 0;
};

}  // namespace spillway
