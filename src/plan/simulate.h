// Simulates a Program at a Machine's rates: how long a micro-batch and an update take, and which lane is the
// bottleneck.
//
// Every instruction starts when its lane is free and all that it waits for has finished. A transfer finishes its lane's
// latency after the lane has become free for the next. While another lane is busy, the compute lane runs slower by that
// lane's Machine::compute_share: on a machine whose CPU both computes and copies, a transfer beside the computation is
// not free. A copying lane runs slower by its Machine::opposite_share while the opposite lane is busy.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "plan/cost_model.h"
#include "plan/program.h"

namespace spillway {

// The largest share of its speed that a lane loses to all others together.
constexpr double kMaxShare = 0.95;

struct LaneUse {
  double busy_seconds = 0;  // without latencies
  double bytes = 0;         // moved by copies, sent by collectives
};

struct Simulation {
  double micro_step_seconds = 0;  // forward and backward sections
  double update_seconds = 0;
  double micro_step_stall_seconds = 0;  // of those, the compute lane waits for other lanes
  double update_stall_seconds = 0;
  std::array<LaneUse, kLanes> lanes{};
  Lane bottleneck = Lane::kCompute;

  [[nodiscard]] double step_seconds(int64_t accumulation) const {
    return static_cast<double>(accumulation) * micro_step_seconds + update_seconds;
  }
  [[nodiscard]] double stall_seconds(int64_t accumulation) const {
    return static_cast<double>(accumulation) * micro_step_stall_seconds + update_stall_seconds;
  }
};

// The start and end of an instruction, in seconds since its section began.
struct LaneTime {
  double start = 0, finish = 0;
};

// Simulates a program. `timeline`, unless null, gets one entry per instruction.
[[nodiscard]] Simulation simulate(const Program& program, const CostModel& costs,
                                  std::vector<LaneTime>* timeline = nullptr);

// The properties of an instruction that the simulator needs, for plans compared before their Program is written out.
struct Task {
  Lane lane = Lane::kCompute;
  double seconds = 0;
  int64_t moved_bytes = 0;         // by a copy, or sent by a collective
  std::span<const int32_t> waits;  // as an instruction's
};
[[nodiscard]] Simulation simulate(std::span<const Task> tasks, std::span<const SectionRange> sections,
                                  const Machine& machine, std::vector<LaneTime>* timeline = nullptr);

}  // namespace spillway
