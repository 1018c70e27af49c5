#include "runtime/calibration.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "plan/signature.h"
#include "runtime/timeline.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr auto kToHost = static_cast<size_t>(Lane::kDeviceToHost), kToDevice = static_cast<size_t>(Lane::kHostToDevice);

// A machine with a host tier, whose copies take half of what computes.
Machine tiered_machine() {
  Machine machine{.threads = 1};
  machine.link_bytes_per_second.fill(2e8);
  machine.compute_share[kToHost] = machine.compute_share[kToDevice] = 0.5;
  return machine;
}

// A tiny job whose activations go to the host, planned for tiered_machine().
const train::PlannedJob& planned_job() {
  static const train::PlannedJob kPlanned = [] {
    train::Job job = tiny_job(kGoldenModels / "qwen3", {.accumulates = false});
    job.policy = saved_policy(ActivationPolicy::kHost);
    job.budget.host = int64_t{64} << 20;
    return train::plan_job(job, tiered_machine());
  }();
  return kPlanned;
}

// Its program with transfers of a thousand times the bytes, and more than latency.
const Program& large_program() {
  static const Program kProgram = [] {
    Program program = planned_job().plan.program;
    for (Instruction& instruction : program.instructions) {
      if (instruction.kind == Instruction::Kind::kCopy) instruction.inputs[0].place.bytes *= 1000;
    }
    return program;
  }();
  return kProgram;
}

// A run of so many steps that take what the model says of `truth`, each some share longer than the one before.
Calibration run_on(const Machine& truth, int64_t steps, double longer = 0,
                   const Program& program = planned_job().plan.program, const Machine& known = tiered_machine()) {
  const Graph& graph = planned_job().training.graph;
  const CostModel costs(graph, truth);
  Calibration calibration(graph, program, known);
  double scale = 1;
  for (int64_t step = 0; step < steps; ++step, scale *= 1 + longer) {
    std::vector<LaneTime> times = predicted_timeline(program, costs).times;
    for (LaneTime& time : times) time = {scale * time.start, scale * time.finish};
    calibration.add_step(times);
  }
  return calibration;
}

}  // namespace

TEST_CASE("a run teaches what its operations take, without what transfers beside them took") {
  Machine truth = tiered_machine();
  truth.memory_bytes_per_second /= 3;
  truth.matrix_flops_f32 /= 3;
  const CostModel costs(planned_job().training.graph, truth);
  Machine machine = tiered_machine();
  REQUIRE(run_on(truth, 6).improve(machine));
  const Graph& graph = planned_job().training.graph;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops.size()); ++op) {
    const std::string signature = signature_of(graph, op);
    CAPTURE(signature);
    REQUIRE(machine.operations.count(signature) == 1);
    CHECK(machine.operations[signature].compute == doctest::Approx(costs.operation_seconds(op)).epsilon(0.01));
  }
}

TEST_CASE("a run teaches what its lanes move in a second") {
  Machine truth = tiered_machine();
  truth.operation_seconds = 0;
  truth.link_bytes_per_second[kToHost] = 1.8e8;
  Machine machine = tiered_machine();
  REQUIRE(run_on(truth, 6, 0, large_program()).improve(machine));
  CHECK(machine.link_bytes_per_second[kToHost] == doctest::Approx(1.8e8));
  CHECK(machine.link_bytes_per_second[kToDevice] == doctest::Approx(2e8));
  // The few bytes of the job as it is say nothing.
  REQUIRE(run_on(truth, 6).improve(machine = tiered_machine()));
  CHECK(machine.link_bytes_per_second[kToHost] == 2e8);
}

TEST_CASE("a lane's rate is its own, without latency and what the opposite lane took") {
  const auto with_costs = [](Machine machine) {
    machine.operation_seconds = 0;
    machine.opposite_share[kToHost] = machine.opposite_share[kToDevice] = 0.5;
    machine.link_latency_seconds[kToHost] = machine.link_latency_seconds[kToDevice] = 1e-3;
    return machine;
  };
  Machine truth = with_costs(tiered_machine());
  truth.link_bytes_per_second[kToHost] = 1.8e8;
  Machine machine = with_costs(tiered_machine());
  REQUIRE(run_on(truth, 6, 0, large_program(), machine).improve(machine));
  CHECK(machine.link_bytes_per_second[kToHost] == doctest::Approx(1.8e8).epsilon(0.02));
  CHECK(machine.link_bytes_per_second[kToDevice] == doctest::Approx(2e8).epsilon(0.02));
}

TEST_CASE("a run teaches nothing about disks that it was not on") {
  Program program = large_program();
  for (Instruction& instruction : program.instructions) {
    if (instruction.lane == Lane::kDeviceToHost) instruction.lane = Lane::kDiskWrite;
    if (instruction.lane == Lane::kHostToDevice) instruction.lane = Lane::kDiskRead;
  }
  constexpr auto kWrite = static_cast<size_t>(Lane::kDiskWrite);
  Machine known = tiered_machine(), truth = tiered_machine();
  known.disks = "8:1";
  truth.operation_seconds = 0;
  truth.link_bytes_per_second[kWrite] = 1.8e8;
  const Calibration run = run_on(truth, 6, 0, program, known);
  Machine other = known;
  other.disks = "8:2";
  REQUIRE(run.improve(other));
  CHECK(other.link_bytes_per_second[kWrite] == 2e8);
  REQUIRE(run.improve(known));
  CHECK(known.link_bytes_per_second[kWrite] == doctest::Approx(1.8e8));
}

TEST_CASE("what a machine knows already, one run changes by a bounded part only") {
  Machine known = tiered_machine();
  REQUIRE(run_on(tiered_machine(), 6).improve(known));
  for (auto& [signature, seconds] : known.operations) seconds.compute = 10;
  known.link_bytes_per_second[kToHost] = 1;
  REQUIRE(run_on(tiered_machine(), 6, 0, large_program()).improve(known));
  for (const auto& [signature, seconds] : known.operations) CHECK(seconds.compute == doctest::Approx(10 / 1.25));
  CHECK(known.link_bytes_per_second[kToHost] == doctest::Approx(1.5));
}

TEST_CASE("however many runs agree, they go no farther from what was measured than by half of it") {
  Machine known = tiered_machine();
  REQUIRE(run_on(tiered_machine(), 6).improve(known));
  const Machine measured = known;
  Machine truth = tiered_machine();
  truth.link_bytes_per_second[kToHost] = 1e7;
  for (auto& [signature, seconds] : known.operations) truth.operations[signature].compute = 10 * seconds.compute;
  const Calibration loaded = run_on(truth, 6, 0, large_program());
  for (int run = 0; run < 5; ++run) REQUIRE(loaded.improve(known));
  for (const auto& [signature, seconds] : measured.operations) {
    CHECK(known.operations[signature].compute == doctest::Approx(1.5 * seconds.compute));
    CHECK(known.measured.operations[signature].compute == seconds.compute);
  }
  CHECK(known.link_bytes_per_second[kToHost] == doctest::Approx(2e8 / 1.5));
  CHECK(known.measured.link_bytes_per_second[kToHost] == 2e8);
  // And back, when the load is gone.
  const Calibration alone = run_on(measured, 6, 0, large_program());
  for (int run = 0; run < 5; ++run) REQUIRE(alone.improve(known));
  for (const auto& [signature, seconds] : measured.operations)
    CHECK(known.operations[signature].compute == doctest::Approx(seconds.compute).epsilon(0.01));
}

TEST_CASE("what was measured on a busy machine gives way to the first quiet run, however far that is") {
  Machine known = tiered_machine();
  REQUIRE(run_on(tiered_machine(), 6).improve(known));
  const Machine::OperationTable truth = known.operations;
  for (auto& [signature, seconds] : known.operations) seconds = {.compute = 1000, .cpu_share = 0.5};
  known.operations.begin()->second.host = 1000;
  known.link_bytes_per_second[kToHost] = 1;
  known.cpu_shares.rates = 0.5;
  REQUIRE(run_on(tiered_machine(), 6, 0, large_program()).improve(known));
  for (const auto& [signature, seconds] : truth) {
    const Machine::OperationSeconds& found = known.operations[signature];
    CHECK(found.compute == doctest::Approx(seconds.compute).epsilon(0.01));
    CHECK(found.is_provisional() == (found.host > 0));  // what no run has seen is still to be measured
  }
  CHECK(known.link_bytes_per_second[kToHost] == doctest::Approx(2e8).epsilon(0.01));
  CHECK(known.measured.operations.empty());
  CHECK(known.measured.link_bytes_per_second[kToHost] == 0);
}

TEST_CASE("a step counts only where the compute lane had a CPU whenever it wanted one") {
  Calibration calibration(planned_job().training.graph, planned_job().plan.program, tiered_machine());
  calibration.begin_step(2.0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(calibration.had_cpu(2.0));
  CHECK(calibration.had_cpu(3.0));  // it waited for other lanes
}

TEST_CASE("a run of few steps teaches nothing, nor does one whose steps differ") {
  for (const Calibration& run : {run_on(tiered_machine(), 4), run_on(tiered_machine(), 8, 0.1)}) {
    Machine machine = tiered_machine();
    CHECK_FALSE(run.improve(machine));
    CHECK(machine.operations.empty());
  }
}
