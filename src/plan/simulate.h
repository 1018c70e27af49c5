// Plays a Program against a Machine's rates: how long a micro-step and an update take, and which lane is the
// bottleneck.
//
// Every instruction starts when its lane is free and all that it waits for has finished. An operation takes the longer
// of its arithmetic at the matrix rate and its bytes at the memory rate, and a fixed time to start.
#pragma once

#include <array>

#include "plan/machine.h"

namespace spillway {

struct LaneUse {
  double busy_seconds = 0;
  double bytes = 0;  // moved by copies
};

struct Simulation {
  double micro_step_seconds = 0;  // forward and backward sections
  double update_seconds = 0;
  double stall_seconds = 0;  // of the compute lane, waiting for other lanes, in one micro-step and one update
  std::array<LaneUse, kLanes> lanes{};
  Lane bottleneck = Lane::kCompute;

  [[nodiscard]] double step_seconds(int64_t accumulation) const {
    return static_cast<double>(accumulation) * micro_step_seconds + update_seconds;
  }
};

[[nodiscard]] Simulation simulate(const Graph& graph, const Program& program, const Machine& machine);

}  // namespace spillway
