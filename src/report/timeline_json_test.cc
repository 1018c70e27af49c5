#include "runtime/timeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/index.h"
#include "plan/testing/random_plan.h"
#include "plan/testing/random_program.h"
#include "report/timeline_json.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// Every lane is there, and slow enough that computation has to wait.
Machine slow_machine() {
  Machine machine;
  machine.link_bytes_per_second.fill(1e6);
  return machine;
}

}  // namespace

TEST_CASE("a predicted timeline is as long as the simulated step and stalls as long") {
  double stalls = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed, 1);
    const Graph graph = random_graph(seed);
    const Plan plan = random_plan(graph, random);
    const CostModel costs(graph, slow_machine());
    const Simulation simulation = simulate(plan.program, costs);
    const Timeline timeline = predicted_timeline(plan.program, costs);
    CHECK(timeline.seconds == doctest::Approx(simulation.step_seconds(1)));
    double sum = 0;
    for (const Stall& stall : timeline.stalls) {
      CHECK(stall.finish > stall.start);
      CHECK(nth(timeline.times, stall.waits_for).finish <= stall.finish + 1e-9);
      sum += stall.finish - stall.start;
    }
    // Waits too short to show are left out.
    CHECK(sum <= simulation.stall_seconds(1) + 1e-9);
    CHECK(sum >= simulation.stall_seconds(1) - 2e-6 * static_cast<double>(plan.program.instructions.size()));
    stalls += sum;
    const std::vector<double> clock = clock_of(plan.program, timeline);
    CHECK(std::is_sorted(clock.begin(), clock.end()));
  }
  CHECK(stalls > 0);
}

TEST_CASE("a measured timeline begins when its first instruction does") {
  RandomStream random(3, 1);
  const Graph graph = random_graph(3);
  const Plan plan = random_plan(graph, random);
  const Timeline predicted = predicted_timeline(plan.program, CostModel(graph, slow_machine()));
  std::vector<LaneTime> times = predicted.times;
  for (LaneTime& time : times) time = {time.start + 100, time.finish + 100};
  const Timeline measured = measured_timeline(plan.program, times);
  CHECK(measured.seconds == doctest::Approx(predicted.seconds));
  CHECK(measured.stalls.size() == predicted.stalls.size());
}

TEST_CASE("merged neighbours keep every instruction, byte and stall") {
  RandomStream random(5, 1);
  const Graph graph = random_graph(5, {.blocks = 6});
  const Plan plan = random_plan(graph, random);
  const Timeline timeline = predicted_timeline(plan.program, CostModel(graph, slow_machine()));
  const auto whole = timeline_json(graph, plan.program, timeline, std::nullopt);
  const auto merged = timeline_json(graph, plan.program, timeline, timeline, 20);
  CHECK(whole["instructions"].size() == plan.program.instructions.size());
  CHECK(merged["instructions"].size() < whole["instructions"].size());
  const auto sum = [](const nlohmann::ordered_json& json, size_t column) {
    int64_t result = 0;
    for (const auto& row : json["instructions"]) result += row[column].get<int64_t>();
    return result;
  };
  CHECK(sum(merged, 5) == sum(whole, 5));
  CHECK(sum(merged, 6) == sum(whole, 6));
  CHECK(merged["predicted"]["stalls"].size() == timeline.stalls.size());
  CHECK(merged["measured"]["start"].size() == merged["instructions"].size());
  CHECK(whole["measured"].is_null());
  for (const auto& stall : merged["predicted"]["stalls"]) CHECK(stall[2].get<size_t>() < merged["instructions"].size());
}

TEST_CASE("stretched sections stand one behind the other, each as long as its factor says") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed, 1);
    const Graph graph = random_graph(seed);
    const Plan plan = random_plan(graph, random);
    const Program& program = plan.program;
    const Timeline timeline = predicted_timeline(program, CostModel(graph, slow_machine()));
    const std::vector<double> ones(program.sections.size(), 1.0);
    CHECK(stretched(program, timeline, 5, ones).seconds == doctest::Approx(5 + timeline.seconds));
    std::vector<double> factors;
    double seconds = 5;
    for (size_t i = 0; i < program.sections.size(); ++i) {
      const SectionRange& section = program.sections[i];
      double begin = timeline.seconds, end = 0;
      for (int32_t k = section.begin; k < section.end; ++k) {
        begin = std::min(begin, nth(timeline.times, k).start);
        end = std::max(end, nth(timeline.times, k).finish);
      }
      factors.push_back(static_cast<double>(i) + 2);
      if (section.begin < section.end) seconds += factors.back() * (end - begin);
    }
    const Timeline longer = stretched(program, timeline, 5, factors);
    CHECK(longer.seconds == doctest::Approx(seconds));
    CHECK(longer.stalls.size() == timeline.stalls.size());
    for (const LaneTime& time : longer.times) {
      CHECK(time.start >= 5);
      CHECK(time.finish <= longer.seconds + 1e-9);
    }
    const std::vector<double> clock = clock_of(program, longer);
    CHECK(std::is_sorted(clock.begin(), clock.end()));
  }
}

TEST_CASE("timelines of several programs are one list, with blocks and waits of each") {
  std::vector<Graph> graphs;
  std::vector<Plan> plans;
  for (const uint64_t seed : {3, 4}) {
    RandomStream random(seed, 1);
    graphs.push_back(random_graph(seed));
    plans.push_back(random_plan(graphs.back(), random));
  }
  std::vector<TimelinePart> parts;
  for (size_t i = 0; i < 2; ++i)
    parts.push_back({&graphs[i], &plans[i].program,
                     predicted_timeline(plans[i].program, CostModel(graphs[i], slow_machine())), std::nullopt});
  const auto both = timeline_json(parts);
  size_t first = 0;
  for (size_t i = 0; i < 2; ++i) {
    const auto one = timeline_json(graphs[i], plans[i].program, parts[i].predicted, std::nullopt);
    for (size_t row = 0; row < one["instructions"].size(); ++row) {
      const auto &alone = one["instructions"][row], &beside = both["instructions"][first + row];
      CHECK(both["strings"][beside[3].get<size_t>()] == one["strings"][alone[3].get<size_t>()]);
      if (alone[4] == -1) {
        CHECK(beside[4] == -1);
      } else {
        CHECK(both["blocks"][beside[4].get<size_t>()] == one["blocks"][alone[4].get<size_t>()]);
      }
    }
    first += one["instructions"].size();
  }
  CHECK(both["instructions"].size() == first);
  CHECK(both["predicted"]["start"].size() == first);
  CHECK(both["predicted"]["stalls"].size() == parts[0].predicted.stalls.size() + parts[1].predicted.stalls.size());
  CHECK(both["measured"].is_null());
}
