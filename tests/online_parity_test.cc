// Online reinforcement learning trains as TRL's trainers do: given the completions that a run of theirs generated, the
// same advantages, loss, metrics and gradient norm at each step, and the weights after them. The numbers are TRL's own:
// tools/make_online_rl_goldens.py.
#include <doctest/doctest.h>

#include "tests/support/recorded_rounds.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::testing;

TEST_CASE("online reinforcement learning trains as TRL's trainers do") {
  const std::filesystem::path goldens = source_folder() / "tests/golden/online_rl";
  int64_t checked = 0;
  for (const std::string& name : golden_cases(goldens)) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const std::filesystem::path golden = goldens / "cases" / name;
    (void)check_recorded_case(golden, golden_config(golden, folder.path() / "out"));
    ++checked;
  }
  CHECK(checked == 73);
}
