#include "plan/verify.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "graph/verify.h"
#include "plan/planner.h"
#include "plan/testing/random_plan.h"
#include "plan/testing/random_program.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

std::string joined(const std::vector<std::string>& violations) {
  std::string text;
  for (const std::string& v : violations) text += v + "\n";
  return text;
}

// A way to break a program. Returns false if this program has nothing to break in that way.
struct Breakage {
  const char* name;
  bool (*apply)(Program& program, RandomStream& random);
};

Instruction& any(Program& program, RandomStream& random) {
  return program.instructions[random.below(static_cast<uint32_t>(program.instructions.size()))];
}

const Breakage kBreakages[] = {
    {"an output moves elsewhere",
     [](Program& p, RandomStream& r) {
       Operand& output = any(p, r).outputs[0];
       const int64_t room = p.arena_bytes[0] - output.place.bytes;
       output.place.offset = r.below(static_cast<uint32_t>(room + 1));
       return true;
     }},
    {"an input is read elsewhere",
     [](Program& p, RandomStream& r) {
       Operand& input = any(p, r).inputs[0];
       input.place.offset = r.below(static_cast<uint32_t>(p.arena_bytes[0] - input.place.bytes + 1));
       return true;
     }},
    {"the arena is too small",
     [](Program& p, RandomStream&) {
       p.arena_bytes[0] -= 64;
       return true;
     }},
    {"two neighbours change places",
     [](Program& p, RandomStream& r) {
       const SectionRange& s = p.sections[r.below(3)];
       if (s.end - s.begin < 2) return false;
       const auto i = static_cast<size_t>(s.begin) + r.below(static_cast<uint32_t>(s.end - s.begin - 1));
       std::swap(p.instructions[i], p.instructions[i + 1]);
       for (auto& waits : {&p.instructions[i].waits, &p.instructions[i + 1].waits})
         std::erase_if(*waits, [&](int32_t w) { return w >= static_cast<int32_t>(i); });
       return true;
     }},
    {"a recomputation is left out",
     [](Program& p, RandomStream& r) {
       std::vector<size_t> again;
       for (size_t i = 0; i < p.instructions.size(); ++i)
         if (p.instructions[i].recompute) again.push_back(i);
       if (again.empty()) return false;
       const size_t gone = again[r.below(static_cast<uint32_t>(again.size()))];
       p.instructions.erase(p.instructions.begin() + static_cast<std::ptrdiff_t>(gone));
       --p.sections[1].end;
       p.sections[2].begin--, p.sections[2].end--;
       for (Instruction& i : p.instructions) {
         std::erase(i.waits, static_cast<int32_t>(gone));
         for (int32_t& w : i.waits) w -= w > static_cast<int32_t>(gone);
       }
       return true;
     }},
    {"a workspace moves elsewhere",
     [](Program& p, RandomStream& r) {
       Instruction& i = any(p, r);
       if (i.workspace.bytes == 0) return false;
       i.workspace.offset = r.below(static_cast<uint32_t>(p.arena_bytes[0] - i.workspace.bytes + 1));
       return true;
     }},
    {"a wait is missing",
     [](Program& p, RandomStream& r) {
       Instruction& i = any(p, r);
       if (i.waits.empty()) return false;
       i.waits.clear();
       return true;
     }},
    {"a home moves onto another",
     [](Program& p, RandomStream& r) {
       if (p.homes.size() < 2) return false;
       p.homes[r.below(static_cast<uint32_t>(p.homes.size()))].place.offset = 0;
       return true;
     }},
};

// Checks a plan with random choices, and that its program computes what the graph says in several orders of its lanes.
Plan check_random_plan(const Graph& graph, RandomStream& random, int orders) {
  REQUIRE(joined(verify(graph)) == "");
  Plan plan = random_plan(graph, random);
  REQUIRE(joined(verify(graph, plan.program)) == "");
  const Outcome expected = expected_outcome(graph);
  for (int order = 0; order < orders; ++order) REQUIRE(execute(graph, plan.program, random) == expected);
  return plan;
}

}  // namespace

TEST_CASE("programs of random graphs with random choices are clean and compute what the graph says") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed, 7);
    const Graph graph = random_graph(seed, {.blocks = 1 + static_cast<int>(seed % 4),
                                            .ops_per_block = 3 + static_cast<int>(seed % 5),
                                            .updates_in_blocks = seed % 2 == 1});
    (void)check_random_plan(graph, random, 4);
  }
}

TEST_CASE("programs of random groups of micro-batches with random choices are clean and compute what the graph says") {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed, 19);
    const Graph graph = random_graph(seed, {.blocks = 1 + static_cast<int>(seed % 4),
                                            .ops_per_block = 2 + static_cast<int>(seed % 3),
                                            .updates_in_blocks = seed % 2 == 1,
                                            .micro_batches = 2 + static_cast<int64_t>(seed % 3),
                                            .whole_step = seed % 8 >= 4,
                                            .experts = seed % 5 == 0 ? 3 : 0});
    (void)check_random_plan(graph, random, 3);
  }
}

TEST_CASE("collectives on a lane of their own, among random choices, are clean and compute what the graph says") {
  int64_t collectives = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed, 17);
    const Graph graph = random_graph(
        seed, {.blocks = 1 + static_cast<int>(seed % 4), .updates_in_blocks = seed % 2 == 1, .collectives = true});
    const Plan plan = check_random_plan(graph, random, 4);
    for (const Instruction& i : plan.program.instructions) collectives += i.lane == Lane::kPeer;
  }
  CHECK(collectives > 60);
}

TEST_CASE("collectives that are dropped, doubled, swapped, resized, repeated or on another lane are reported") {
  const Graph graph = random_graph(3, {.blocks = 6, .collectives = true});
  const Program good = plan_for(graph, Machine{}, uniform_choices(graph, ActivationPolicy::kKeep)).program;
  std::vector<size_t> found;  // of the backward section
  for (int32_t i = good.sections[1].begin; i < good.sections[1].end; ++i)
    if (nth(good.instructions, i).lane == Lane::kPeer) found.push_back(static_cast<size_t>(i));
  REQUIRE(found.size() >= 2);
  const size_t first = found[0], second = found[1];
  const auto violations = [&](const auto& change) {
    Program broken = good;
    change(broken.instructions);
    return joined(verify(graph, broken));
  };
  using Instructions = std::vector<Instruction>;
  const std::string name = fmt::format("operation {} (together)", good.instructions[first].op);
  // Another instruction twice keeps the sections as they are.
  CHECK(violations([&](Instructions& all) { all[first] = all[0]; }).find(name + " runs 0 times") != std::string::npos);
  CHECK(violations([&](Instructions& all) { all[second] = all[first]; }).find(name + " runs 2 times") !=
        std::string::npos);
  CHECK(violations([&](Instructions& all) { ++all[first].inputs[0].place.bytes; }).find("bytes instead of") !=
        std::string::npos);
  CHECK(violations([&](Instructions& all) { all[first].lane = Lane::kCompute; }).find("runs on lane compute") !=
        std::string::npos);
  CHECK(violations([&](Instructions& all) { all[first].recompute = true; }).find("is a collective") !=
        std::string::npos);
  CHECK(violations([&](Instructions& all) { all[0].lane = Lane::kPeer; }).find("runs on lane peer") !=
        std::string::npos);
  CHECK(violations([&](Instructions& all) {
          std::swap(all[first], all[second]);
          for (const size_t i : {first, second}) all[i].waits.clear();
        }).find(fmt::format("instruction {} (together) comes after together", second)) != std::string::npos);
}

TEST_CASE("every way to break a program is caught whenever it changes a result") {
  for (const Breakage& breakage : kBreakages) {
    CAPTURE(breakage.name);
    int wrong = 0, reported = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      RandomStream random(seed, 11);
      const bool is_group = seed % 4 == 3;
      const Graph graph =
          random_graph(seed, {.blocks = 2, .ops_per_block = is_group ? 2 : 4, .micro_batches = is_group ? 2 : 1});
      const Outcome expected = expected_outcome(graph);
      const Program good = random_plan(graph, random).program;
      for (int attempt = 0; attempt < 4; ++attempt) {
        CAPTURE(seed);
        CAPTURE(attempt);
        Program broken = good;
        if (!breakage.apply(broken, random)) continue;
        const bool caught = !verify(graph, broken).empty();
        reported += caught;
        bool changed = false;
        for (int order = 0; order < 4 && !changed; ++order) changed = execute(graph, broken, random) != expected;
        wrong += changed;
        REQUIRE((caught || !changed));
      }
    }
    CHECK(wrong > 0);
    CHECK(reported >= wrong);
  }
}

TEST_CASE("an arena above its budget is reported") {
  const Graph graph = random_graph(1);
  const Plan plan = plan_for(graph, Machine{}, uniform_choices(graph, ActivationPolicy::kKeep));
  const int64_t bytes = plan.program.arena_bytes[0];
  CHECK(verify(graph, plan.program, {.device = bytes}).empty());
  CHECK(joined(verify(graph, plan.program, {.device = bytes - 1})) ==
        fmt::format("the device arena has {} bytes, its budget is {}\n", bytes, bytes - 1));
}
