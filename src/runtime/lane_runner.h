// The interface for executing the instructions of a section, in an order that their lanes and waits permit.
#pragma once

#include <functional>
#include <memory>

#include "runtime/lane_profile.h"
#include "runtime/loaded_program.h"

namespace spillway {

class LaneRunner {
 public:
  virtual ~LaneRunner() = default;
  // Returns when all instructions of the section have finished. If one fails, throws its error when none is running any
  // more, and must not be called again.
  virtual void run(const SectionRange& section) = 0;
};

// A factory of runners. The arguments outlive the runner.
using MakeLaneRunner = std::function<std::unique_ptr<LaneRunner>(LoadedProgram& loaded, LaneProfile& profile)>;

// Makes a runner with a thread per lane that the program uses; the compute lane runs on the caller's thread.
[[nodiscard]] std::unique_ptr<LaneRunner> make_lane_threads(LoadedProgram& loaded, LaneProfile& profile);

}  // namespace spillway
