// Executes a program on one thread in any order that its lanes and waits permit: at each point it chooses, by a seed,
// among the lanes whose next instruction may start. Whatever threads could do, some seed does; and the same seed does
// it again.
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
  // What waits for lane L says: each instruction of L below done_[L] has finished.
  [[nodiscard]] bool is_ready(int32_t instruction) const;

  LoadedProgram& loaded_;
  LaneProfile& profile_;
  RandomStream& random_;
  std::array<std::vector<int32_t>, kLanes> instructions_;  // of each lane
  std::array<size_t, kLanes> next_{};                      // index into it
  std::array<int32_t, kLanes> done_{};
};

// For ExecutorOptions::lanes.
[[nodiscard]] MakeLaneRunner scripted_by(RandomStream& random);

}  // namespace spillway::testing
