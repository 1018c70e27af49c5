#include "plan/guards.h"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "plan/moved_bytes.h"
#include "plan/plan_context.h"
#include "plan/planner.h"
#include "plan/testing/random_plan.h"
#include "plan/testing/random_program.h"
#include "plan/verify.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// Returns a machine whose links carry so many bytes per second.
Machine machine_with_links(double bytes_per_second) {
  Machine machine;
  machine.link_bytes_per_second.fill(bytes_per_second);
  return machine;
}

Graph graph_with_experts(uint64_t seed) {
  return random_graph(seed, {.blocks = 1 + static_cast<int>(seed % 4), .ops_per_block = 3, .experts = 6});
}

bool is_guarded(const Instruction& instruction) { return instruction.guard != kNone; }

int64_t guards_of(const Program& program) {
  return std::count_if(program.instructions.begin(), program.instructions.end(), is_guarded);
}

// Returns a plan with all experts on the disk.
Plan plan_with_experts_on_disk(const Graph& graph, const Machine& machine) {
  Choices choices = uniform_choices(graph, ActivationPolicy::kKeep);
  move_groups(graph, {.kind = ValueKind::kFrozenWeight, .in_block = true, .part = kExpertPart}, Tier::kDisk, choices);
  return plan_for(graph, machine, choices);
}

std::string violations_of(const Graph& graph, const Program& program) {
  return fmt::format("{}", fmt::join(verify(graph, program), "\n"));
}

}  // namespace

TEST_CASE("programs that load only the experts which are reached are clean and compute what the graph says") {
  int64_t guards = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed, 23);
    const Graph graph = graph_with_experts(seed);
    const Plan plan = plan_for(graph, machine_with_links(1e5), random_choices(graph, random));
    REQUIRE(violations_of(graph, plan.program) == "");
    const Outcome expected = expected_outcome(graph);
    for (int order = 0; order < 4; ++order) REQUIRE(execute(graph, plan.program, random) == expected);
    guards += guards_of(plan.program);
  }
  CHECK(guards > 200);
}

TEST_CASE("experts are loaded when they are known to be reached if that is faster, else ahead of their router") {
  const Graph graph = graph_with_experts(3);
  const Program slow_link = plan_with_experts_on_disk(graph, machine_with_links(1e5)).program;
  CHECK(guards_of(slow_link) == 4 * 6);
  CHECK(guards_of(plan_with_experts_on_disk(graph, machine_with_links(1e12)).program) == 0);
}

TEST_CASE("predictions count as many experts as are reached by chance") {
  const Graph graph = graph_with_experts(2);
  const Plan plan = plan_with_experts_on_disk(graph, machine_with_links(1e5));
  REQUIRE(guards_of(plan.program) > 0);
  int64_t bytes = 0;
  for (const Instruction& i : plan.program.instructions)
    if (is_guarded(i)) bytes += static_cast<int64_t>(0.5 * static_cast<double>(i.inputs[0].place.bytes));
  const MovedBytes moved = moved_bytes(graph, plan.program, PlanContext{});
  int64_t read = 0;
  for (const int64_t of_class : nth(moved, Lane::kDiskRead)) read += of_class;
  CHECK(read == bytes);
  CHECK(nth(plan.simulation.lanes, Lane::kDiskRead).bytes == static_cast<double>(bytes));
}

TEST_CASE("a guard of another expert, of no expert, or without its reader's knowledge is reported") {
  const Graph graph = graph_with_experts(1);
  const Program good = plan_with_experts_on_disk(graph, machine_with_links(1e5)).program;
  const auto violations = [&](const auto& change) {
    Program broken = good;
    change(*std::find_if(broken.instructions.begin(), broken.instructions.end(), is_guarded));
    return violations_of(graph, broken);
  };
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  CHECK(has(violations([](Instruction& i) { i.guard = i.guard == 0 ? 1 : 0; }), "may not have brought"));
  CHECK(has(violations([](Instruction& i) { i.guard = 6; }), "has number 6 of"));
  CHECK(has(violations([](Instruction& i) { i.inputs.pop_back(); }), "something else than one value"));
  CHECK(has(violations([](Instruction& i) { i.waits.clear(); }), "without waiting"));
}
