#include "report/memory_over_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "plan/moved_bytes.h"
#include "plan/testing/random_plan.h"
#include "plan/testing/random_program.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

int64_t total(const ClassBytes& bytes) { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

}  // namespace

TEST_CASE("the usage of all steps is that of each, in every tier of random plans") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed, 1);
    const Graph graph = random_graph(seed);
    const Plan plan = random_plan(graph, random);
    for (int tier = 0; tier < kBudgetedTiers; ++tier) {
      const auto usage = usage_over_steps(graph, plan.schedule, static_cast<Tier>(tier));
      REQUIRE(usage.size() == plan.schedule.steps.size());
      for (size_t step = 0; step < usage.size(); ++step)
        CHECK(usage[step] == usage_at(graph, plan.schedule, static_cast<Tier>(tier), static_cast<int32_t>(step)));
    }
  }
}

TEST_CASE("a thinned curve keeps the peak and has rising steps") {
  RandomStream random(7, 1);
  const Graph graph = random_graph(7, {.blocks = 6});
  const Plan plan = random_plan(graph, random);
  const auto usage = usage_over_steps(graph, plan.schedule, Tier::kDevice);
  int64_t peak = 0;
  for (const ClassBytes& bytes : usage) peak = std::max(peak, total(bytes));
  for (const size_t points : {1u, 2u, 10u, 10'000u}) {
    const MemoryCurve curve = memory_over_step(graph, plan.schedule, Tier::kDevice, points);
    CHECK(curve.steps.size() <= points);
    CHECK(curve.steps.size() == curve.bytes.size());
    CHECK(curve.steps.front() == 0);
    CHECK(std::is_sorted(curve.steps.begin(), curve.steps.end()));
    int64_t highest = 0;
    for (const ClassBytes& bytes : curve.bytes) highest = std::max(highest, total(bytes));
    CHECK(highest == peak);
  }
}

TEST_CASE("the bytes moved by kind are those that the simulator moves on each lane") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed, 1);
    const Graph graph = random_graph(seed);
    const Plan plan = random_plan(graph, random);
    const MovedBytes moved = moved_bytes(graph, plan.program, PlanContext{});
    for (size_t lane = 0; lane < kLanes; ++lane)
      CHECK(static_cast<double>(total(moved[lane])) == plan.simulation.lanes[lane].bytes);
  }
}
