#include "runtime/testing/scripted_lanes.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/index.h"

namespace spillway::testing {

ScriptedLanes::ScriptedLanes(LoadedProgram& loaded, LaneProfile& profile, RandomStream& random)
    : loaded_(loaded), profile_(profile), random_(random) {
  const std::vector<Instruction>& instructions = loaded.program().instructions;
  for (size_t i = 0; i < instructions.size(); ++i)
    nth(instructions_, instructions[i].lane).push_back(static_cast<int32_t>(i));
}

bool ScriptedLanes::is_ready(int32_t instruction) const {
  const std::vector<Instruction>& instructions = loaded_.program().instructions;
  const std::vector<int32_t>& waits = nth(instructions, instruction).waits;
  return std::all_of(waits.begin(), waits.end(),
                     [&](int32_t other) { return nth(done_, nth(instructions, other).lane) > other; });
}

void ScriptedLanes::run(const SectionRange& section) {
  done_.fill(section.begin);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const std::vector<int32_t>& all = instructions_[lane];
    next_[lane] = static_cast<size_t>(std::lower_bound(all.begin(), all.end(), section.begin) - all.begin());
  }
  for (int32_t left = section.end - section.begin; left > 0; --left) {
    std::array<size_t, kLanes> ready;
    uint32_t count = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const std::vector<int32_t>& all = instructions_[lane];
      if (next_[lane] < all.size() && all[next_[lane]] < section.end && is_ready(all[next_[lane]]))
        ready[count++] = lane;
    }
    SPILLWAY_CHECK(count > 0, "{} instructions wait for each other", left);
    const size_t lane = ready[random_.below(count)];
    const int32_t i = instructions_[lane][next_[lane]++];
    const double before = now_seconds();
    loaded_.execute(i);
    done_[lane] = i + 1;
    profile_.record(static_cast<Lane>(lane), i, before, now_seconds());
  }
}

MakeLaneRunner scripted_by(RandomStream& random) {
  return [&random](LoadedProgram& loaded, LaneProfile& profile) {
    return std::make_unique<ScriptedLanes>(loaded, profile, random);
  };
}

}  // namespace spillway::testing
