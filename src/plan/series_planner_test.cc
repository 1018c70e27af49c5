#include "plan/series_planner.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/index.h"
#include "plan/testing/random_program.h"
#include "plan/verify.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

Machine slow_links() {
  Machine machine;
  machine.memory_bytes_per_second = 1e9;
  machine.operation_seconds = 1e-7;
  machine.link_bytes_per_second.fill(1e9);
  return machine;
}

int64_t bytes_on_device(const Plan& plan) { return nth(plan.peaks, Tier::kDevice).bytes; }

}  // namespace

TEST_CASE(
    "every plan of a series is one that the verifier takes, within its budget, and nearly as fast as the full "
    "search's") {
  const Machine machine = slow_links();
  for (const uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    const Graph graph = random_graph(seed, {.blocks = 6, .ops_per_block = 6});
    const int64_t most = bytes_on_device(make_plan(graph, machine, {}, {}, 1));
    SeriesPlanner series(graph, machine, {}, 1);
    for (const int64_t eighths : {8, 7, 6, 5, 4}) {
      CAPTURE(eighths);
      const Budget budget{.device = most * eighths / 8, .host = 4 * most, .disk = 0};
      const Plan full = make_plan(graph, machine, budget, {}, 1), plan = series.plan(budget);
      CHECK(plan.fits == full.fits);
      if (!plan.fits) continue;
      CHECK(verify(graph, plan.program, budget) == std::vector<std::string>{});
      CHECK(bytes_on_device(plan) <= *budget.device);
      CHECK(plan.simulation.step_seconds(1) <= full.simulation.step_seconds(1) * 1.1);
      CHECK(series.computing_seconds() <= plan.simulation.step_seconds(1));
    }
  }
}
