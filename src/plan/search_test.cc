#include "plan/search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "base/index.h"
#include "plan/testing/random_program.h"
#include "plan/verify.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr Tier kHomes[] = {Tier::kDevice, Tier::kHost, Tier::kDisk};
constexpr ActivationPolicy kActivationPolicies[] = {ActivationPolicy::kKeep, ActivationPolicy::kRecompute,
                                                    ActivationPolicy::kHost, ActivationPolicy::kDisk};

// Computing and moving cost about the same here, so that the choice matters.
Machine balanced_machine() {
  Machine machine;
  machine.memory_bytes_per_second = 1e9;
  machine.operation_seconds = 1e-7;
  machine.link_bytes_per_second.fill(1e9);
  nth(machine.link_bytes_per_second, Lane::kDiskRead) = 4e8;
  nth(machine.link_bytes_per_second, Lane::kDiskWrite) = 3e8;
  return machine;
}

bool fits(const Plan& plan, const Budget& budget) {
  return plan.peaks[0].bytes <= budget.device.value_or(std::numeric_limits<int64_t>::max()) &&
         plan.peaks[1].bytes <= budget.host.value_or(0) && plan.peaks[2].bytes <= budget.disk.value_or(0);
}

int64_t bytes_away(const Plan& plan) {
  int64_t sum = 0;
  for (const Tier tier : {Tier::kHost, Tier::kDisk, Tier::kFiles}) sum += nth(plan.peaks, tier).bytes;
  return sum;
}

// The plan, and in `fastest_seconds`, where that is wanted, what the fastest takes that was found.
Plan plan_within(const PlanBuilder& builder, const Budget& budget, const Policy& policy,
                 double* fastest_seconds = nullptr) {
  KnownPlans known;
  PlanCandidates candidates(builder, 1, known);
  const Found found = search_plan(candidates, budget, policy);
  Plan plan = builder.build(found.choices, found.effort);
  compare_with(plan, budget);
  CHECK(plan.simulation.step_seconds(1) <= found.fastest_seconds * (1 + kAsFast));
  if (fastest_seconds) *fastest_seconds = found.fastest_seconds;
  return plan;
}

// Visits every setting that treats all blocks alike.
template <typename Visit>
void for_each_uniform(const Graph& graph, const Visit& visit) {
  for (const ActivationPolicy saved : kActivationPolicies) {
    for (const Tier weights : kHomes) {
      for (const Tier state : kHomes) {
        for (const Tier gradients : kHomes) {
          if (gradients != Tier::kDevice && gradients != state) continue;
          Choices choices = uniform_choices(graph, saved);
          for (const ValueKind kind : {ValueKind::kFrozenWeight, ValueKind::kTrainableWeight})
            move_groups(graph, {.kind = kind}, weights, choices);
          move_groups(graph, {.kind = ValueKind::kOptimizerState}, state, choices);
          move_groups(graph, {.kind = ValueKind::kGradient}, gradients, choices);
          visit(choices);
        }
      }
    }
  }
}

// Raises the budget of one tier in eight steps, twice, in a random graph; checks that no plan is slower than an earlier
// one by more than a share of it.
void check_raising(std::optional<int64_t> Budget::*tier, uint64_t seed, int blocks, double missed) {
  constexpr int64_t kBudgets = 8;
  const Graph graph = random_graph(seed, {.blocks = blocks, .ops_per_block = 6});
  const Machine machine = balanced_machine();
  const PlanBuilder builder(graph, machine, {});
  const auto all_in = [&](ActivationPolicy saved) { return builder.build(uniform_choices(graph, saved)).peaks; };
  const int64_t most = all_in(ActivationPolicy::kKeep)[0].bytes, least = all_in(ActivationPolicy::kDisk)[0].bytes;
  const int64_t host = all_in(ActivationPolicy::kHost)[1].bytes, disk = all_in(ActivationPolicy::kDisk)[2].bytes;
  for (const int64_t thirds : {1, 2}) {
    double previous = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < kBudgets; ++i) {
      Budget budget{.device = least + (most - least) * thirds / 3, .host = host * thirds / 3, .disk = 2 * disk};
      const int64_t whole = tier == &Budget::device ? most : tier == &Budget::host ? 2 * host : 3 * disk;
      budget.*tier = whole * i / (kBudgets - 1);
      CAPTURE(seed);
      CAPTURE(*budget.device);
      CAPTURE(*budget.host);
      CAPTURE(*budget.disk);
      double seconds = 0;
      if (!plan_within(builder, budget, {}, &seconds).fits) {
        CHECK(previous == std::numeric_limits<double>::infinity());
        continue;
      }
      CHECK(seconds <= previous * (1 + missed));
      previous = std::min(previous, seconds);
    }
  }
}

}  // namespace

TEST_CASE("no uniform setting that fits is faster than the plan, on any budget between the least and everything") {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Graph graph = random_graph(seed, {.blocks = 6, .ops_per_block = 6});
    const Machine machine = balanced_machine();
    const PlanBuilder builder(graph, machine, {});
    std::vector<Plan> uniforms;
    for_each_uniform(graph, [&](const Choices& choices) { uniforms.push_back(builder.build(choices)); });
    int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
    for (const Plan& plan : uniforms)
      least = std::min(least, plan.peaks[0].bytes), most = std::max(most, plan.peaks[0].bytes);
    double previous = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 20; ++i) {
      const Budget budget{.device = least + (most - least) * i / 19, .host = 40'000, .disk = 4'000'000};
      CAPTURE(seed);
      CAPTURE(*budget.device);
      double fastest = 0;
      const Plan plan = plan_within(builder, budget, {}, &fastest);
      double best = std::numeric_limits<double>::infinity();
      for (const Plan& uniform : uniforms)
        if (fits(uniform, budget)) best = std::min(best, uniform.simulation.step_seconds(1));
      if (best < std::numeric_limits<double>::infinity()) REQUIRE(plan.fits);
      if (!plan.fits) continue;
      CHECK(fits(plan, budget));
      CHECK(verify(graph, plan.program, budget).empty());
      CHECK(fastest <= best * (1 + 1e-9));
      CHECK(fastest <= previous * (1 + 1e-9));
      previous = fastest;
    }
  }
}

TEST_CASE("raising the budget of any tier never makes the predicted step slower where every block has its turn") {
  for (uint64_t seed = 20; seed < 22; ++seed) {
    for (std::optional<int64_t> Budget::*const tier : {&Budget::device, &Budget::host, &Budget::disk})
      check_raising(tier, seed, 6, 1e-9);
  }
}

TEST_CASE("with more blocks than there is time to change, raising a budget makes the step slower by 1 % at most") {
  check_raising(&Budget::device, 214, 16, 0.01);
}

TEST_CASE("of two plans the one that takes less away from the device is preferred, unless it is more than 1 % slower") {
  const PlanCost fastest{.seconds = 10, .bytes_away = 500}, leaner{.seconds = 10.09, .bytes_away = 499},
      slow{.seconds = 10.11, .bytes_away = 0}, alike{.seconds = 10.05, .bytes_away = 500};
  CHECK(is_preferred(leaner, fastest, 10));
  CHECK_FALSE(is_preferred(fastest, leaner, 10));
  CHECK(is_preferred(leaner, slow, 10));
  CHECK_FALSE(is_preferred(slow, fastest, 10));
  CHECK(is_preferred(fastest, alike, 10));
  CHECK_FALSE(is_preferred(alike, fastest, 10));
}

// Moving takes nearly no time here, so that thousands of plans are as fast as each other.
TEST_CASE("where moving is hidden, half of the host memory that a plan takes would not do without a slower step") {
  for (uint64_t seed = 60; seed < 63; ++seed) {
    const Graph graph = random_graph(seed, {.blocks = 6, .ops_per_block = 6});
    Machine machine = balanced_machine();
    machine.link_bytes_per_second.fill(1e13);
    const PlanBuilder builder(graph, machine, {});
    const int64_t most = builder.build(uniform_choices(graph, ActivationPolicy::kKeep)).peaks[0].bytes;
    for (const int64_t percent : {95, 80, 60}) {
      CAPTURE(seed);
      CAPTURE(percent);
      Budget budget{.device = most * percent / 100, .host = 10'000'000};
      Policy policy;
      policy.rules = {{{.kind = ValueKind::kGradient}, Tier::kDevice},
                      {{.kind = ValueKind::kOptimizerState}, Tier::kDevice}};
      double fastest = 0;
      const Plan plan = plan_within(builder, budget, policy, &fastest);
      REQUIRE(plan.fits);
      CAPTURE(bytes_away(plan));
      budget.host = bytes_away(plan) / 2;
      const Plan less = plan_within(builder, budget, policy);
      CHECK((!less.fits || less.simulation.step_seconds(1) > fastest * (1 + kAsFast)));
    }
  }
}

// The graph has as many operations as 128 blocks of a model; more would take longer than a user waits.
TEST_CASE(
    "a schedule in which no memory is used twice is timed before it has offsets, and takes no longer than with them") {
  const Graph graph = random_graph(3, {.blocks = 6, .ops_per_block = 6});
  const PlanBuilder builder(graph, balanced_machine(), {});
  for_each_uniform(graph, [&](const Choices& choices) {
    Plan plan = builder.schedule(choices);
    builder.predict(plan);
    const double seconds = plan.simulation.step_seconds(1);
    CHECK(seconds <= (1 + 1e-9) * builder.build(choices).simulation.step_seconds(1));
    CHECK(seconds >= (1 - 1e-9) * builder.min_seconds(builder.work_of(plan.schedule), 1));
  });
}

TEST_CASE("the more operations a graph has, the fewer candidates the search looks at") {
  constexpr int kBlocks = 128;
  const Graph graph = random_graph(7, {.blocks = kBlocks, .ops_per_block = 20});
  const PlanBuilder builder(graph, balanced_machine(), {});
  const int64_t most =
      builder.build(uniform_choices(graph, ActivationPolicy::kKeep), PackEffort::kQuick).peaks[0].bytes;
  REQUIRE(graph.ops.size() > 6000);
  for (const int64_t percent : {70, 30}) {
    KnownPlans known;
    PlanCandidates candidates(builder, 1, known);
    const Budget budget{.device = most * percent / 100, .host = most / 4, .disk = 2 * most};
    CHECK(search_plan(candidates, budget, {}).fits);
    CHECK(candidates.scheduled_count() <= 250);
    CHECK(candidates.packed_count() <= 100);
  }
}

TEST_CASE("on small graphs the plan is within 2 % of the best of all combinations of block activation_policies") {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Graph graph = random_graph(seed + 40, {.blocks = 4, .ops_per_block = 5});
    const Machine machine = balanced_machine();
    const PlanBuilder builder(graph, machine, {});
    std::vector<Plan> all;
    for (int code = 0; code < 256; ++code) {
      Choices choices = uniform_choices(graph, ActivationPolicy::kKeep);
      for (size_t b = 0; b < 4; ++b) choices.saved[b] = saved_alike(kActivationPolicies[(code >> (2 * b)) & 3]);
      all.push_back(builder.build(choices));
    }
    const auto [least, most] = std::minmax_element(
        all.begin(), all.end(), [](const Plan& a, const Plan& b) { return a.peaks[0].bytes < b.peaks[0].bytes; });
    for (int i = 0; i < 8; ++i) {
      const int64_t device = least->peaks[0].bytes + (most->peaks[0].bytes - least->peaks[0].bytes) * i / 7;
      const Budget budget{.device = device, .host = 10'000, .disk = 400'000};
      Policy policy;
      policy.rules = {{.pattern = {}, .home = Tier::kDevice}};
      CAPTURE(seed);
      CAPTURE(device);
      const Plan plan = plan_within(builder, budget, policy);
      double best = std::numeric_limits<double>::infinity();
      for (const Plan& other : all)
        if (fits(other, budget)) best = std::min(best, other.simulation.step_seconds(1));
      REQUIRE(plan.fits);
      CHECK(plan.simulation.step_seconds(1) <= best * 1.02);
    }
  }
}

TEST_CASE("where moving takes as long as computing again, no plan of blocks that alternate is faster than the plan") {
  constexpr size_t kBlocks = 24;
  for (const uint64_t seed : {3, 4}) {
    const Graph graph = random_graph(seed, {.blocks = kBlocks, .ops_per_block = 16});
    Machine machine = balanced_machine();
    for (const Lane lane : {Lane::kHostToDevice, Lane::kDeviceToHost}) nth(machine.link_bytes_per_second, lane) = 6e8;
    const PlanBuilder builder(graph, machine, {});
    // Moves the saved activations of `moved` of the blocks, spread evenly; the others recompute them.
    const auto alternating = [&](size_t moved) {
      Choices choices = uniform_choices(graph, ActivationPolicy::kRecompute);
      choices.overlap = Overlap::kBlock;
      for (size_t block = 0; block < kBlocks; ++block) {
        if ((block + 1) * moved / kBlocks > block * moved / kBlocks)
          choices.saved[block] = saved_alike(ActivationPolicy::kHost);
      }
      return builder.build(choices, PackEffort::kQuick);
    };
    const Plan none = alternating(0), all = alternating(kBlocks);
    const Budget budget{.device = std::max(none.peaks[0].bytes, all.peaks[0].bytes), .host = 2 * all.peaks[1].bytes};
    double best = std::numeric_limits<double>::infinity();
    for (size_t moved = 1; moved < kBlocks; ++moved) {
      const Plan plan = alternating(moved);
      if (fits(plan, budget)) best = std::min(best, plan.simulation.step_seconds(1));
    }
    CAPTURE(seed);
    CAPTURE(best);
    REQUIRE(best < none.simulation.step_seconds(1));
    REQUIRE(best < all.simulation.step_seconds(1));
    Policy policy;
    policy.rules = {{.pattern = {}, .home = Tier::kDevice}};
    double fastest = 0;
    const Plan plan = plan_within(builder, budget, policy, &fastest);
    REQUIRE(plan.fits);
    CHECK(fastest <= best);
  }
}

TEST_CASE("with a device of its own, state in host memory is updated on both sides at once, which beats either alone") {
  // Moving the state to the device and back takes as long as the host needs to work on it.
  const Graph graph =
      random_graph(5, {.blocks = 8, .ops_per_block = 4, .weights = 3, .max_bytes = 20'000, .updates_in_blocks = true});
  Machine machine = balanced_machine();
  machine.device = DeviceKind::kCuda;
  machine.host_bytes_per_second = 1e9;
  machine.memory_bytes_per_second = 1e12;
  const PlanBuilder builder(graph, machine, {});
  const Policy policy{
      .rules = {{{.kind = ValueKind::kGradient}, Tier::kDevice}, {{.kind = ValueKind::kOptimizerState}, Tier::kHost}}};
  const Plan plan = plan_within(builder, {.host = 1'000'000}, policy);
  REQUIRE(plan.fits);
  CHECK(verify(graph, plan.program, {}).empty());
  Choices all = plan.choices;
  for (const bool on_device : {false, true}) {
    for (Residency& group : all.groups)
      if (group.home == Tier::kHost) group.site = on_device ? Tier::kDevice : Tier::kHost;
    CHECK(plan.simulation.update_seconds < builder.build(all).simulation.update_seconds);
  }

  machine.device = DeviceKind::kCpu;
  const Plan of_one_processor = plan_within(PlanBuilder(graph, machine, {}), {.host = 1'000'000}, policy);
  const auto& groups = of_one_processor.choices.groups;
  CHECK(std::none_of(groups.begin(), groups.end(), [&](const Residency& group) {
    const ValueKind kind = nth(graph.groups, &group - groups.data()).kind;
    return kind == ValueKind::kOptimizerState && group != Residency{Tier::kHost, Tier::kHost};
  }));
}

// A weight is a large part of the device here: transfers that run far ahead take more of it than moving weights saves.
TEST_CASE("a plan is found where everything that moves without overlap fits") {
  for (uint64_t seed = 306; seed < 311; ++seed) {
    const Graph graph = random_graph(seed, {.blocks = 4, .ops_per_block = 3, .weights = 3, .max_bytes = 20'000});
    const Machine machine = balanced_machine();
    const PlanBuilder builder(graph, machine, {});
    Choices far = uniform_choices(graph, ActivationPolicy::kDisk);
    far.overlap = Overlap::kSynchronous;
    for (const ValueKind kind :
         {ValueKind::kFrozenWeight, ValueKind::kTrainableWeight, ValueKind::kOptimizerState, ValueKind::kGradient})
      move_groups(graph, {.kind = kind}, Tier::kDisk, far);
    const std::array<TierPeak, kTiers> least = builder.build(far).peaks;
    for (const int64_t host : {int64_t{0}, least[2].bytes / 8}) {
      CAPTURE(seed);
      CAPTURE(host);
      CHECK(plan_within(builder, {.device = least[0].bytes, .host = host, .disk = 2 * least[2].bytes}, {}).fits);
    }
  }
}
