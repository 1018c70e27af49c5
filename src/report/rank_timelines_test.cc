#include "report/rank_timelines.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "plan/testing/random_plan.h"
#include "plan/testing/random_program.h"
#include "runtime/timeline.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::ordered_json;

namespace {

// A rank that computes from 0 to `computed`, exchanges until `end`, and updates for 10 us, on a clock that is `late`.
ordered_json trace_of(int64_t computed, int64_t end, int64_t late, int64_t ranks = 3) {
  return {{"spans", {{late, computed, 0}, {late + end, 10, 3}}},
          {"meetings", {{late + computed, late + end, ranks}}},
          {"stalls", {{late + computed, end - computed, 0}}}};
}

}  // namespace

TEST_CASE("a rank waits for the one that comes last to an exchange, whatever their clocks are") {
  // Rank 1 comes last, after 80 us; the exchange itself takes 5 us.
  const ordered_json traces[] = {trace_of(50, 85, 0), trace_of(80, 85, 7000), trace_of(20, 85, -300)};
  const ordered_json all = rank_timelines(traces);
  CHECK(all["seconds"].get<double>() == doctest::Approx(85e-6));
  CHECK(all["ranks"][0]["waits"] == ordered_json({{50, 30, 1}}));
  CHECK(all["ranks"][1]["waits"].empty());
  CHECK(all["ranks"][2]["waits"] == ordered_json({{20, 60, 1}}));
  CHECK(all["ranks"][2]["waited_seconds"]["1"].get<double>() == doctest::Approx(60e-6));
  CHECK(all["ranks"][1]["spans"] == ordered_json({{0, 80, 0}, {85, 10, 3}}));
  CHECK(all["ranks"][2]["exchanges"] == ordered_json({{20, 65}}));
}

TEST_CASE("a rank waits only for those of its own group") {
  ordered_json traces[4];
  for (int64_t rank = 0; rank < 4; ++rank) {
    // All agree at 100 us; before that, neighbours by two exchange, of which ranks 1 and 2 come last.
    const int64_t computed = rank == 1 ? 40 : rank == 2 ? 70 : 10;
    traces[rank] = trace_of(computed, rank < 2 ? 45 : 75, 0, 2);
    traces[rank]["meetings"].push_back({90, 100, 4});
  }
  const ordered_json all = rank_timelines(traces);
  CHECK(all["ranks"][0]["waits"] == ordered_json({{10, 30, 1}}));
  CHECK(all["ranks"][3]["waits"] == ordered_json({{10, 60, 2}}));
  CHECK(all["ranks"][1]["waits"].empty());
}

TEST_CASE("ranks that did different things have no common timelines") {
  ordered_json other = trace_of(20, 85, 0);
  other["meetings"].push_back({90, 95, 3});
  const ordered_json traces[] = {trace_of(50, 85, 0), other};
  CHECK(rank_timelines(traces).is_null());
  CHECK(rank_timelines({}).is_null());
}

TEST_CASE("a trace has all of the computation of a step, in at most some thousand spans") {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed, 1);
    const Graph graph = random_graph(seed);
    const Plan plan = random_plan(graph, random);
    const Timeline timeline = predicted_timeline(plan.program, CostModel(graph, Machine()));
    const ordered_json trace = rank_trace(graph, plan.program, timeline.times, 2);
    REQUIRE_FALSE(trace["spans"].empty());
    int64_t last = 0;
    for (const ordered_json& span : trace["spans"]) {
      CHECK(span[0].get<int64_t>() >= last);
      last = span[0].get<int64_t>() + span[1].get<int64_t>();
    }
    CHECK(static_cast<double>(last) <= 1e6 * timeline.seconds + 1);
    // Sections of a program end together on all ranks.
    for (const ordered_json& meeting : trace["meetings"]) CHECK(meeting[2] == 2);
  }
}
