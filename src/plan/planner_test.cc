#include "plan/planner.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/index.h"
#include "plan/offsets.h"
#include "plan/print.h"
#include "plan/search.h"
#include "plan/testing/random_program.h"
#include "plan/usage.h"
#include "plan/verify.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

int64_t device_bytes(const Plan& plan) { return plan.peaks[0].bytes; }
int64_t recomputed_blocks(const Plan& plan) {
  return std::count_if(plan.choices.saved.begin(), plan.choices.saved.end(),
                       [](const Saved& saved) { return summary(saved) == ActivationPolicy::kRecompute; });
}

}  // namespace

TEST_CASE("without a budget nothing is recomputed") {
  const Graph graph = random_graph(3, {.blocks = 6});
  CHECK(recomputed_blocks(make_plan(graph, Machine{}, {}, {})) == 0);
}

TEST_CASE("a fixed policy is followed whatever the budget") {
  const Graph graph = random_graph(3, {.blocks = 6});
  const Plan plan = make_plan(graph, Machine{}, {}, saved_policy(ActivationPolicy::kRecompute));
  CHECK(recomputed_blocks(plan) == 6);
  CHECK(plan.fits);
}

TEST_CASE("raising the budget never makes the predicted step slower, and what is said to fit does") {
  const Graph graph = random_graph(5, {.blocks = 8, .ops_per_block = 8});
  const int64_t most = device_bytes(make_plan(graph, Machine{}, {}, {}));
  const int64_t least = device_bytes(make_plan(graph, Machine{}, {}, saved_policy(ActivationPolicy::kRecompute)));
  REQUIRE(least < most);
  double previous = 1e9;
  for (int i = 0; i <= 20; ++i) {
    const int64_t budget = least + (most - least) * i / 20;
    const Plan plan = make_plan(graph, Machine{}, {.device = budget}, {});
    CAPTURE(budget);
    CHECK(plan.fits);
    CHECK(device_bytes(plan) <= budget);
    CHECK(plan.simulation.step_seconds(1) <= previous);
    CHECK(verify(graph, plan.program, {.device = budget}).empty());
    previous = plan.simulation.step_seconds(1);
  }
}

TEST_CASE("a budget that cannot be met says how much is missing and the live bytes at the peak") {
  const Graph graph = random_graph(5, {.blocks = 4});
  const Plan least = make_plan(graph, Machine{}, {}, saved_policy(ActivationPolicy::kRecompute));
  const Plan plan = make_plan(graph, Machine{}, {.device = 100}, {});
  CHECK_FALSE(plan.fits);
  CHECK(plan.missing_bytes[0] <= device_bytes(least) - 100);
  CHECK(plan.missing_bytes[0] == device_bytes(plan) - 100);
  const std::vector<LiveBuffer> live = live_at(graph, plan.schedule, Tier::kDevice, plan.peaks[0].step);
  int64_t sum = 0;
  for (const LiveBuffer& b : live) sum += (b.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  CHECK(sum == plan.peaks[0].lower_bound);
  CHECK(std::is_sorted(live.begin(), live.end(),
                       [](const LiveBuffer& a, const LiveBuffer& b) { return a.bytes > b.bytes; }));
}

TEST_CASE("the frontier has only points that fit every tier") {
  const Graph graph = random_graph(5, {.blocks = 4});
  Machine machine;
  machine.link_bytes_per_second.fill(1e9);
  const auto points = [&](int64_t host) {
    std::vector<FrontierPoint> frontier;
    (void)make_plan(graph, machine, {.host = host}, saved_policy(ActivationPolicy::kHost), 1, &frontier);
    return frontier;
  };
  REQUIRE_FALSE(points(1 << 30).empty());
  CHECK(points(1).empty());
}

// Budgets range from the least memory to more than enough, and links from a crawl to no cost.
TEST_CASE("a plan is as fast as any point of its frontier that fits, whatever the budgets and the links") {
  for (const int blocks : {4, 10}) {
    const Graph graph = random_graph(static_cast<uint64_t>(blocks), {.blocks = blocks, .ops_per_block = 6});
    for (const double rate : {2e8, 2e9}) {
      Machine machine;
      machine.memory_bytes_per_second = 1e9;
      machine.operation_seconds = 1e-7;
      machine.link_bytes_per_second.fill(rate);
      for (const Budget& others : {Budget{.host = 0, .disk = 0}, Budget{.host = 40'000, .disk = 0},
                                   Budget{.host = 40'000, .disk = 4'000'000}}) {
        Budget budget = others;
        std::vector<FrontierPoint> points;
        (void)make_plan(graph, machine, budget, {}, 2, &points);
        REQUIRE_FALSE(points.empty());
        for (size_t i = 1; i < points.size(); ++i) {
          CHECK(points[i].bytes[0] < points[i - 1].bytes[0]);
          CHECK(points[i].step_seconds(2) >= points[i - 1].step_seconds(2));
        }
        const int64_t least = points.back().bytes[0], most = points.front().bytes[0];
        for (int i = 0; i <= 2; ++i) {
          budget.device = least + (most - least) * i / 2;
          CAPTURE(blocks);
          CAPTURE(rate);
          CAPTURE(*budget.host);
          CAPTURE(*budget.disk);
          CAPTURE(*budget.device);
          std::vector<FrontierPoint> beside;
          const Plan plan = make_plan(graph, machine, budget, {}, 2, &beside);
          REQUIRE(plan.fits);
          CHECK(verify(graph, plan.program, budget).empty());
          for (const FrontierPoint& point : points) {
            if (point.bytes[0] > *budget.device) continue;
            CHECK(plan.simulation.step_seconds(2) <= point.step_seconds(2) * (1 + kAsFast));
          }
          // Points that the plan beats are not in the list.
          CHECK(beside.front().bytes == points.front().bytes);
          CHECK(beside.back().bytes == points.back().bytes);
          for (size_t point = 1; point + 1 < beside.size(); ++point) {
            const bool is_larger = beside[point].bytes[0] >= plan.peaks[0].bytes;
            if (is_larger) CHECK(beside[point].step_seconds(2) <= plan.simulation.step_seconds(2));
          }
        }
      }
    }
  }
}

TEST_CASE("the least memory named is never more than what the plan itself takes") {
  const Graph graph = random_graph(5, {.blocks = 4});
  const Plan plan = make_plan(graph, Machine{}, {}, saved_policy(ActivationPolicy::kRecompute));
  PlanContext context;
  context.frontier = {{.bytes = {int64_t{8} << 30}, .micro_step_seconds = 1},
                      {.bytes = {int64_t{4} << 30}, .micro_step_seconds = 2}};
  CHECK(print_plan(graph, plan, context).find("the least it can run in is " + format_bytes_up(device_bytes(plan))) !=
        std::string::npos);
}

TEST_CASE("open activations stay where the policy lets nothing move") {
  const Graph graph = random_graph(5, {.blocks = 8, .ops_per_block = 8});
  Machine machine;
  machine.link_bytes_per_second.fill(1e15);
  const int64_t most = device_bytes(make_plan(graph, machine, {}, {}));
  const Budget budget{.device = most * 9 / 10, .host = 1 << 30};
  const auto moved = [&](bool may_move) {
    Policy policy;
    policy.may_move_saved = may_move;
    policy.rules = {{.pattern = {}, .home = Tier::kDevice}};
    return make_plan(graph, machine, budget, policy).peaks[1].bytes > 0;
  };
  CHECK(moved(true));
  CHECK_FALSE(moved(false));
}

TEST_CASE("beside the user's files alone, a weight that they do not hold stays on the device") {
  int64_t held = 0, others = 0;
  for (uint64_t seed = 1; seed < 9; ++seed) {
    const Graph graph = random_graph(seed, {.blocks = 4});
    const GraphFacts facts = facts_of(graph);
    Choices choices = uniform_choices(graph, ActivationPolicy::kKeep);
    for (const ValueKind kind : {ValueKind::kFrozenWeight, ValueKind::kTrainableWeight})
      move_groups(graph, {.kind = kind}, Tier::kDisk, choices);
    OwnFiles files;
    for (const Value& value : graph.values)
      files.held.push_back(value.kind == ValueKind::kFrozenWeight && (held + std::ssize(files.held)) % 2 == 0);
    const Placement of_both = place_values(graph, facts, choices, files);
    files.are_all_of_disk = true;
    const Placement of_files = place_values(graph, facts, choices, files);
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
      if (nth(of_both.homes, id) == Tier::kFiles) {
        CHECK(nth(of_files.homes, id) == Tier::kFiles);
        ++held;
      } else if (nth(of_both.homes, id) == Tier::kDisk) {
        CHECK(nth(of_files.homes, id) == Tier::kDevice);
        ++others;
      }
    }
  }
  CHECK(held > 0);
  CHECK(others > 0);
}

TEST_CASE("what works on gradients alone runs where they live, and on optimizer state where the update does") {
  const Graph graph = random_graph(3, {.blocks = 4, .updates_in_blocks = true});
  const GraphFacts facts = facts_of(graph);
  Choices choices = uniform_choices(graph, ActivationPolicy::kKeep);
  move_groups(graph, {.kind = ValueKind::kOptimizerState}, Tier::kHost, choices);
  nth(choices.groups, graph.find_group(ValueKind::kOptimizerState, 1)).site = Tier::kDevice;
  int64_t of_gradients = 0, of_state = 0;
  for (const Tier gradients : {Tier::kDevice, Tier::kHost}) {
    move_groups(graph, {.kind = ValueKind::kGradient}, gradients, choices);
    const Placement placement = place_values(graph, facts, choices, {});
    for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
      const Operation& op = graph.op(id);
      if (graph.section_of(id).repeats != Repeats::kStep) continue;
      const ValueId first = op.inputs.front();
      if (op.inputs.size() == 1 && graph.value(first).kind == ValueKind::kGradient) {
        CHECK(nth(placement.sites, id) == gradients);
        ++of_gradients;
      } else if (graph.value(first).kind == ValueKind::kOptimizerState) {
        CHECK(nth(placement.sites, id) == (op.block == 1 ? Tier::kDevice : Tier::kHost));
        ++of_state;
      }
    }
  }
  CHECK(of_gradients > 0);
  CHECK(of_state > 0);
}

TEST_CASE("the same input gives the same plan, on any number of threads") {
  const Graph graph = random_graph(9, {.blocks = 5});
  Machine machine;
  machine.link_bytes_per_second.fill(1e9);
  const auto plan_on = [&](int threads, std::vector<FrontierPoint>* frontier) {
    return make_plan(graph, machine, {.device = 20'000, .host = 1 << 20}, {}, 1, frontier, threads);
  };
  std::vector<FrontierPoint> alone;
  const Plan expected = plan_on(1, &alone);
  for (const int threads : {1, 2, 8}) {
    std::vector<FrontierPoint> points;
    const Plan plan = plan_on(threads, &points);
    CHECK(plan.offsets == expected.offsets);
    CHECK(plan.choices.saved == expected.choices.saved);
    CHECK(plan.choices.groups == expected.choices.groups);
    REQUIRE(points.size() == alone.size());
    for (size_t i = 0; i < points.size(); ++i) CHECK(points[i].bytes == alone[i].bytes);
  }
}

TEST_CASE("packed buffers never overlap while both are live, and random ones come close to the bound") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    RandomStream random(seed, 3);
    std::vector<Interval> intervals;
    for (int i = 0; i < 120; ++i) {
      const auto begin = static_cast<int32_t>(random.below(100));
      intervals.push_back(
          {random.below(10'000), begin, begin + 1 + static_cast<int32_t>(random.below(seed % 2 ? 5 : 60))});
    }
    const Packing packing = pack(intervals);
    for (size_t a = 0; a < intervals.size(); ++a) {
      CHECK(packing.offsets[a] % kArenaAlignment == 0);
      CHECK(packing.offsets[a] + intervals[a].bytes <= packing.bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool meet = intervals[a].begin < intervals[b].end && intervals[b].begin < intervals[a].end;
        const bool overlap = packing.offsets[a] < packing.offsets[b] + intervals[b].bytes &&
                             packing.offsets[b] < packing.offsets[a] + intervals[a].bytes;
        REQUIRE_FALSE((meet && overlap && intervals[a].bytes > 0 && intervals[b].bytes > 0));
      }
    }
    CHECK(static_cast<double>(packing.bytes) <= 1.25 * static_cast<double>(packing.lower_bound));
  }
}
