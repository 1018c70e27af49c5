// Who executes the instructions of a section, in an order that their lanes and waits permit.
#pragma once

#include <functional>
#include <memory>

#include "runtime/lane_profile.h"
#include "runtime/loaded_program.h"

namespace spillway {

class LaneRunner {
 public:
  virtual ~LaneRunner() = default;
  // Returns when all instructions of the section have finished. Where one fails, throws its error when none is running
  // any more, and must not be called again.
  virtual void run(const SectionRange& section) = 0;
};

// The arguments outlive the runner.
using MakeLaneRunner = std::function<std::unique_ptr<LaneRunner>(LoadedProgram& loaded, LaneProfile& profile)>;

// A thread a lane that the program uses; the compute lane is on the caller's.
[[nodiscard]] std::unique_ptr<LaneRunner> make_lane_threads(LoadedProgram& loaded, LaneProfile& profile);

}  // namespace spillway
