// Corrects the machine's measurements by a run's own times, for the next plan: an operation in a step takes another
// time than alone on scratch memory, and a disk is slower over an hour than over three seconds.
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
  // Allocates in advance, so that noting steps allocates nothing. Borrows the program. `machine` is the one that it was
  // planned for.
  Calibration(const Graph& graph, const Program& program, const Machine& machine);

  // Call them before and after a traced step of full streams, on the compute lane's thread. The first steps do not
  // count, nor do those in which that thread waited for a CPU.
  void begin_step(const LaneProfile& lanes) { begin_step(lanes.stall_seconds()); }
  void add_step(const LaneProfile& lanes);
  // Adds a step with these times by instruction.
  void add_step(std::span<const LaneTime> times);
  // Moves the machine's times of the run's operations and lanes towards the medians over the steps. Moves only a part
  // of the way if they are far apart, so that one disturbed run does little harm; and never beyond 1.5 times the
  // measured values, however many runs agree. Returns false, changing nothing, if there were too few steps, or if their
  // times vary as they do beside other work. Lanes that move less than 16 MiB are left out, as are disk lanes if the
  // machine's were measured on other disks.
  [[nodiscard]] bool improve(Machine& machine) const;

  // The parts of the above that need no profile. `stall_seconds` is how long compute has waited so far. had_cpu()
  // returns true if the calling thread has had a CPU since begin_step(), except while it waited.
  void begin_step(double stall_seconds);
  [[nodiscard]] bool had_cpu(double stall_seconds) const;

 private:
  // Instructions that are measured together: the operations of one signature on one lane, or the transfers of a lane.
  struct Group {
    std::string signature;  // empty: transfers
    Lane lane = Lane::kCompute;
    double seconds = 0, amount = 0;  // of the step at hand: calls, or bytes
    std::vector<double> samples;     // by step: seconds per call or per byte
  };

  // Returns when the lane began to execute an instruction: a transfer may start while an earlier one is still waited
  // for.
  [[nodiscard]] double begin_of(std::span<const LaneTime> times, size_t lane, size_t index) const;
  // Returns how long the lane's instruction from `time.start` on would take if no other lane worked meanwhile.
  // REQUIRES: a lane's instructions are asked for in order, after passed_ has been cleared.
  [[nodiscard]] double undisturbed_seconds(std::span<const LaneTime> times, size_t lane, const LaneTime& time);
  // The same for a transfer, without the latency after it, during which the lane is free already.
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
