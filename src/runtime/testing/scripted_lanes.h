// Executes a program on one thread in any order that its lanes and waits permit: at each point it chooses, by a seed,
// among the lanes whose next instruction may start. For each order that threads could produce there is a seed, and the
// same seed repeats it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "runtime/lane_runner.h"

namespace spillway::testing {

class ScriptedLanes final : public LaneRunner {
 public:
  // `random` makes the choices and outlives the runner; it may be set to another seed between sections.
  ScriptedLanes(LoadedProgram& loaded, LaneProfile& profile, RandomStream& random);

  void run(const SectionRange& section) override;

 private:
  // A wait for lane L tells that each instruction of L below done_[L] has finished.
  [[nodiscard]] bool is_ready(int32_t instruction) const;

  LoadedProgram& loaded_;
  LaneProfile& profile_;
  RandomStream& random_;
  std::array<std::vector<int32_t>, kLanes> instructions_;  // of each lane
  std::array<size_t, kLanes> next_{};                      // index into it
  std::array<int32_t, kLanes> done_{};
};

// Returns a factory for ExecutorOptions::lanes.
[[nodiscard]] MakeLaneRunner scripted_by(RandomStream& random);

}  // namespace spillway::testing
