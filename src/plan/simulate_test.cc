#include "plan/simulate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "base/index.h"
#include "graph/builder.h"
#include "ops/add/add.h"
#include "plan/signature.h"
#include "plan/testing/random_plan.h"
#include "plan/testing/random_program.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr double kSeconds = 2;  // of the graph's only operation

Graph one_addition() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {1000}}, ValueKind::kFrozenWeight);
  b.result(ops::add(b, x, x));
  return graph;
}

// Copies move 1000 bytes per second.
Machine slow_machine(const Graph& graph, double share) {
  Machine machine;
  machine.operation_seconds = 0;
  machine.link_bytes_per_second.fill(1000);
  nth(machine.compute_share, Lane::kHostToDevice) = share;
  machine.operations[signature_of(graph, 0)] = {.compute = kSeconds, .host = 3 * kSeconds};
  return machine;
}

Instruction addition(Lane lane, std::vector<int32_t> waits = {}) {
  return {.kind = Instruction::Kind::kRun, .lane = lane, .op = 0, .waits = std::move(waits)};
}
Instruction copy(int64_t bytes) {
  return {.kind = Instruction::Kind::kCopy,
          .lane = Lane::kHostToDevice,
          .inputs = {{0, {Tier::kHost, 0, bytes}}},
          .outputs = {{0, {Tier::kDevice, 0, bytes}}}};
}

Instruction disk_copy(Lane lane, int64_t bytes) {
  const Operand on_disk{0, {Tier::kDisk, 0, bytes}}, on_device{0, {Tier::kDevice, 0, bytes}};
  const bool reads = lane == Lane::kDiskRead;
  return {.kind = Instruction::Kind::kCopy,
          .lane = lane,
          .inputs = {reads ? on_disk : on_device},
          .outputs = {reads ? on_device : on_disk}};
}

Program program_of(std::vector<Instruction> instructions) {
  const auto end = static_cast<int32_t>(instructions.size());
  return {.instructions = std::move(instructions), .sections = {{Repeats::kMicroBatch, 0, end}}};
}

double seconds_of(std::vector<Instruction> instructions, double share) {
  const Graph graph = one_addition();
  return simulate(program_of(std::move(instructions)), CostModel(graph, slow_machine(graph, share))).micro_step_seconds;
}

}  // namespace

TEST_CASE("lanes run beside each other, and an instruction waits for what it names") {
  CHECK(seconds_of({addition(Lane::kCompute), addition(Lane::kCompute)}, 0) == 2 * kSeconds);
  CHECK(seconds_of({copy(1000), addition(Lane::kCompute)}, 0) == kSeconds);
  CHECK(seconds_of({copy(1000), addition(Lane::kCompute, {0})}, 0) == 1 + kSeconds);
  CHECK(seconds_of({addition(Lane::kHostCompute), addition(Lane::kCompute)}, 0) == 3 * kSeconds);
}

TEST_CASE("a copy takes its share from the computation while both run") {
  CHECK(seconds_of({copy(1000), addition(Lane::kCompute)}, 0.5) == doctest::Approx(kSeconds + 0.5));
  CHECK(seconds_of({addition(Lane::kCompute), copy(1000)}, 0.5) == doctest::Approx(kSeconds + 0.5));
  // Four of the eight seconds of copying lie beside the two of computing that they double.
  CHECK(seconds_of({copy(8000), addition(Lane::kCompute)}, 0.5) == doctest::Approx(8));
  CHECK(seconds_of({copy(1000), addition(Lane::kCompute, {0})}, 0.5) == doctest::Approx(1 + kSeconds));
}

TEST_CASE("two lanes that share a disk each lose their share while both are busy") {
  const Graph graph = one_addition();
  Machine machine = slow_machine(graph, 0);
  nth(machine.opposite_share, Lane::kDiskRead) = 0.5;
  nth(machine.opposite_share, Lane::kDiskWrite) = 0.75;
  const auto seconds = [&](int64_t read, int64_t written) {
    std::vector<LaneTime> times;
    const Program program = program_of({disk_copy(Lane::kDiskRead, read), disk_copy(Lane::kDiskWrite, written)});
    const Simulation simulation = simulate(program, CostModel(graph, machine), &times);
    CHECK(simulation.micro_step_seconds == doctest::Approx(std::max(times[0].finish, times[1].finish)));
    return std::pair(times[0].finish, times[1].finish);
  };
  // Reads 1000 bytes at 500 a second, in two seconds, beside 500 that are written at 250; then the rest, alone.
  auto [read, written] = seconds(1000, 1000);
  CHECK(read == doctest::Approx(2));
  CHECK(written == doctest::Approx(2.5));
  std::tie(read, written) = seconds(4000, 1000);
  CHECK(written == doctest::Approx(4));
  CHECK(read == doctest::Approx(4 + 2));
}

TEST_CASE("what waits for a transfer waits out the latency, the lane does not") {
  const Graph graph = one_addition();
  Machine machine = slow_machine(graph, 0);
  nth(machine.link_latency_seconds, Lane::kHostToDevice) = 0.25;
  std::vector<LaneTime> times;
  const Program program = program_of({copy(1000), copy(1000), addition(Lane::kCompute, {0}), copy(500)});
  const Simulation simulation = simulate(program, CostModel(graph, machine), &times);
  CHECK(times[0].finish == doctest::Approx(1.25));
  CHECK(times[1].start == doctest::Approx(1));
  CHECK(times[1].finish == doctest::Approx(2.25));
  CHECK(times[2].start == doctest::Approx(1.25));
  CHECK(times[3].finish == doctest::Approx(2.75));
  CHECK(simulation.micro_step_seconds == doctest::Approx(1.25 + kSeconds));
  CHECK(nth(simulation.lanes, Lane::kHostToDevice).busy_seconds == doctest::Approx(2.5));
}

TEST_CASE("the timeline and the lanes' use say when and how long") {
  const Graph graph = one_addition();
  std::vector<LaneTime> timeline;
  const Simulation simulation = simulate(program_of({copy(1000), addition(Lane::kCompute, {0}), copy(500)}),
                                         CostModel(graph, slow_machine(graph, 0.5)), &timeline);
  CHECK(timeline[1].start == doctest::Approx(1));
  CHECK(timeline[1].finish == doctest::Approx(3.25));
  CHECK(timeline[2].start == doctest::Approx(1));
  CHECK(timeline[2].finish == doctest::Approx(1.5));
  CHECK(simulation.stall_seconds(1) == doctest::Approx(1));
  CHECK(nth(simulation.lanes, Lane::kHostToDevice).bytes == 1500);
  CHECK(nth(simulation.lanes, Lane::kHostToDevice).busy_seconds == doctest::Approx(1.5));
  CHECK(simulation.bottleneck == Lane::kCompute);
}

TEST_CASE("a lane that is not there takes for ever") {
  const Graph graph = one_addition();
  Machine machine = slow_machine(graph, 0.5);
  machine.link_bytes_per_second = {};
  const Program program = program_of({copy(1000), addition(Lane::kCompute, {0}), addition(Lane::kCompute)});
  const Simulation simulation = simulate(program, CostModel(graph, machine));
  CHECK(simulation.micro_step_seconds == std::numeric_limits<double>::infinity());
  CHECK(simulation.bottleneck == Lane::kHostToDevice);
}

TEST_CASE("an update waits once per optimizer step, a micro-batch as often as there are") {
  const Graph graph = one_addition();
  Program program = program_of({addition(Lane::kCompute), copy(9000), addition(Lane::kCompute, {1})});
  program.sections = {{Repeats::kMicroBatch, 0, 1}, {Repeats::kStep, 1, 3}};
  const CostModel costs(graph, slow_machine(graph, 0));
  const Simulation waiting_update = simulate(program, costs);
  CHECK(waiting_update.stall_seconds(16) == doctest::Approx(9));
  CHECK(waiting_update.step_seconds(16) - waiting_update.stall_seconds(16) == doctest::Approx(17 * kSeconds));
  program.sections = {{Repeats::kStep, 0, 1}, {Repeats::kMicroBatch, 1, 3}};
  CHECK(simulate(program, costs).stall_seconds(16) == doctest::Approx(16 * 9));
}

// Random plans of one micro-batch and of groups of them.
TEST_CASE("each instruction starts once its lane and what it waits for are done, and a step ends with the last") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed, 23);
    const Graph graph = random_graph(seed, {.ops_per_block = 3, .micro_batches = 1 + static_cast<int64_t>(seed % 4)});
    Machine machine;
    machine.operation_seconds = 1e-6;
    machine.link_bytes_per_second.fill(2e8);
    const Plan plan = random_plan(graph, random);
    std::vector<LaneTime> times;
    const Simulation simulation = simulate(plan.program, CostModel(graph, machine), &times);
    for (const SectionRange& section : plan.program.sections) {
      std::array<double, kLanes> lane_end{};
      for (int32_t i = section.begin; i < section.end; ++i) {
        const Instruction& instruction = nth(plan.program.instructions, i);
        double earliest = nth(lane_end, instruction.lane);
        for (const int32_t wait : instruction.waits)
          if (wait >= section.begin) earliest = std::max(earliest, nth(times, wait).finish);
        REQUIRE(nth(times, i).start >= earliest - 1e-12);
        REQUIRE(nth(times, i).finish >= nth(times, i).start);
        nth(lane_end, instruction.lane) = nth(times, i).finish;
      }
    }
    double busiest = 0, all = 0;
    for (const LaneUse& lane : simulation.lanes) {
      busiest = std::max(busiest, lane.busy_seconds);
      all += lane.busy_seconds;
    }
    CHECK(simulation.step_seconds(1) >= busiest * (1 - 1e-9));
    CHECK(simulation.step_seconds(1) <= all * (1 + 1e-9));
  }
}
