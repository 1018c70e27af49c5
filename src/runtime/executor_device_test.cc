// Tests executors on a device that works on its own time, in memory of its own: like a GPU, but with the CPU's kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "backend/testing/delayed_device.h"
#include "base/error.h"
#include "plan/planner.h"
#include "runtime/executor.h"
#include "tests/support/random_run.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// The thread sanitizer would rightly report a race that a test makes on purpose.
#ifdef __SANITIZE_THREAD__
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

// The values of this job span several blocks of the disk.
constexpr RandomGraphOptions kLargeJob = {.max_bytes = 30000};

// Records what a kernel sees of its input: the number of rows, and the sum of its bytes.
void run_count(const KernelArgs& args) {
  const TensorView& rows = args.inputs[0];
  int32_t sum = 0;
  for (int64_t i = 0; i < rows.bytes(); ++i) sum += rows.as<uint8_t>()[i];
  args.outputs[0].as<int32_t>()[0] = static_cast<int32_t>(rows.shape[0]);
  args.outputs[0].as<int32_t>()[1] = sum;
}
std::vector<ValueType> infer_count(TypeList, const Attributes&) { return {{DType::kI32, {2}}}; }
Cost cost_count(TypeList, TypeList, const Attributes&) { return {}; }
constexpr OpDef kCount = {.name = "count", .infer = infer_count, .cost = cost_count, .cpu = run_count};

// Writes the first byte of its input half a million times.
void run_spread(const KernelArgs& args) {
  std::fill_n(args.outputs[0].as<uint8_t>(), args.outputs[0].elems(), args.inputs[0].as<uint8_t>()[0]);
}
std::vector<ValueType> infer_spread(TypeList, const Attributes&) { return {{DType::kU8, {1 << 19}}}; }
constexpr OpDef kSpread = {.name = "spread", .infer = infer_spread, .cost = cost_count, .cpu = run_spread};

}  // namespace

TEST_CASE("a device that works on its own time, in memory of its own, computes what the graph says") {
  for (uint64_t seed = 0; seed < 16; ++seed) {
    CAPTURE(seed);
    const RandomJob job = random_job(seed, seed % 4 == 0 ? kLargeJob : RandomGraphOptions{});
    const Outcome expected = expected_outcome(job.graph);
    DelayedDevice device(seed, 60);
    RandomRun run(job, {.lanes = delayed_threads(seed), .device = &device});
    for (int step = 0; step < 2; ++step) REQUIRE(run.step() == expected);
  }
}

TEST_CASE("an event that is not waited for shows" * doctest::skip(kThreadSanitizer)) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    RandomJob job = random_job(nth_seed_with_all_lanes(static_cast<int>(seed)));
    const Outcome expected = expected_outcome(job.graph);
    for (Instruction& instruction : job.program.instructions) {
      if (instruction.lane == Lane::kCompute) instruction.waits.clear();
    }
    DelayedDevice device(seed, 200);
    RandomRun run(job, {.device = &device});
    wrong += run.step() != expected;
  }
  CHECK(wrong > 0);
}

TEST_CASE("a transfer that fails beside a device at work ends the section with its error") {
  const RandomJob job = random_job(nth_seed_with_all_lanes(0));
  int failed = 0;
  for (int64_t fail_at = 0; fail_at < 12; ++fail_at) {
    DelayedDevice device(static_cast<uint64_t>(fail_at), 50);
    RandomRun run(job, {.faults = DiskFaults{.fail_at = fail_at, .error = EIO}, .device = &device});
    try {
      run.load();
      run.train(nullptr);
    } catch (const MachineError&) {
      ++failed;
      CHECK_THROWS_AS(run.train(nullptr), MachineError);
    }
  }
  CHECK(failed >= 5);
}

TEST_CASE("a device that breaks at any of its work ends the section with its error, and all of it goes") {
  const RandomJob job = random_job(nth_seed_with_all_lanes(0));
  int failed = 0;
  for (int64_t fail_at = 0; fail_at < 400; fail_at += 7) {
    CAPTURE(fail_at);
    DelayedDevice device(static_cast<uint64_t>(fail_at), 20, fail_at);
    const auto train = [&] {
      RandomRun run(job, {.lanes = delayed_threads(static_cast<uint64_t>(fail_at)), .device = &device});
      run.load();
      run.train(nullptr);
    };
    try {
      train();
    } catch (const MachineError& error) {
      ++failed;
      CHECK(std::string(error.what()).find("on purpose") != std::string::npos);
    }
  }
  CHECK(failed >= 10);
}

TEST_CASE("sections of kernels alone are captured after some runs and replayed, with the same bytes") {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    Graph graph = random_graph(seed);
    const Plan plan = plan_for(graph, {}, uniform_choices(graph, ActivationPolicy::kKeep));
    const RandomJob job = job_of(std::move(graph), plan);
    const Outcome expected = expected_outcome(job.graph);
    DelayedDevice device(seed, 20);
    RandomRun run(job, {.device = &device});
    for (int step = 0; step < 3; ++step) REQUIRE(run.step() == expected);
    CHECK(device.replays() == 2);  // of 6 runs of the passes; the update has had 3
    for (int step = 0; step < 2; ++step) REQUIRE(run.step() == expected);
    CHECK(device.replays() == 2 + 2 * 4);
    REQUIRE(run.step() == expected);
    CHECK(device.replays() == 10 + 5);
    const LaneTotals compute = run.executor().lanes().totals(Lane::kCompute);
    CHECK(compute.busy_seconds > 0);
  }
}

TEST_CASE("where steps are traced, nothing is captured before five of them are over") {
  constexpr int kMicroSteps = 4;
  Graph graph = random_graph(1);
  const Plan plan = plan_for(graph, {}, uniform_choices(graph, ActivationPolicy::kKeep));
  const RandomJob job = job_of(std::move(graph), plan);
  DelayedDevice device(1, 20);
  RandomRun run(job, {.traced_micro_steps = kMicroSteps, .device = &device});
  run.load();
  const auto events_of_step = [&] {
    run.executor().start_trace();
    run.train(nullptr, kMicroSteps);
    run.executor().stop_trace();
    return run.executor().lanes().trace(Lane::kCompute).size();
  };
  const size_t all = events_of_step();
  CHECK(all > 0);
  for (int step = 1; step < 5; ++step) CHECK(events_of_step() == all);
  CHECK(device.replays() == 0);
  CHECK(events_of_step() == 0);
  CHECK(device.replays() == 2 * kMicroSteps + 1);
}

TEST_CASE("captured work is replayed for its own number of rows only, and reads the batch anew") {
  Graph graph{.name = "rows", .axes = {{"tokens", 8}}};
  Builder b(graph);
  const ValueId batch = b.input("batch", {DType::kU8, {8, 1}, kTokenAxis}, ValueKind::kBatch);
  graph.results = {b.append_one(kCount, {batch}, {})};
  const Plan plan = plan_for(graph, {}, uniform_choices(graph, ActivationPolicy::kKeep));
  DelayedDevice device(7, 20);
  ThreadPool pool(1);
  Executor executor(graph, plan.program, pool, {.tiers = {.device = &device}});
  int32_t filler = 0;
  const auto run_with = [&](int64_t tokens) {
    executor.set_rows(kTokenAxis, tokens);
    const TensorView home = executor.home(batch);
    std::fill_n(home.as<uint8_t>(), home.bytes(), static_cast<uint8_t>(++filler));
    executor.run(0);
    const auto* result = executor.result(0).as<int32_t>();
    CHECK(result[0] == tokens);
    CHECK(result[1] == tokens * filler);
  };
  for (int i = 0; i < 7; ++i) run_with(5);
  CHECK(device.replays() == 2);
  run_with(3);
  CHECK(device.replays() == 2);
  run_with(5);
  CHECK(device.replays() == 3);
  for (const int64_t tokens : {1, 2, 4, 6, 7, 8})
    for (int i = 0; i < 6; ++i) run_with(tokens);
  CHECK(device.replays() == 3 + 3);  // no more than four numbers are kept
}

TEST_CASE("a queue whose capture an error ended does its work as before") {
  DelayedDevice device(3, 20);
  const std::unique_ptr<DeviceQueue> queue = device.make_queue();
  CHECK_THROWS_AS((void)queue->capture([] { throw std::bad_alloc(); }), std::bad_alloc);
  std::array<uint8_t, 2> rows = {3, 4};
  std::array<int32_t, 2> result{};
  const std::array inputs = {TensorView{rows.data(), DType::kU8, {2, 1}}};
  const std::array outputs = {TensorView{result.data(), DType::kI32, {2}}};
  const Attributes attributes;
  queue->run(run_count, {.inputs = inputs, .outputs = outputs, .attributes = attributes});
  queue->finish();
  CHECK(result == std::array<int32_t, 2>{2, 7});
}

TEST_CASE("a batch value is sent again where it has been asked for again, and only then") {
  Graph graph{.name = "sent", .axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId batch = b.input("batch", {DType::kU8, {4, 1}, kTokenAxis}, ValueKind::kBatch);
  graph.results = {b.append_one(kCount, {batch}, {})};
  const Plan plan = plan_for(graph, {}, uniform_choices(graph, ActivationPolicy::kKeep));
  DelayedDevice device(7, 20);
  ThreadPool pool(1);
  Executor executor(graph, plan.program, pool, {.tiers = {.device = &device}});
  const TensorView home = executor.home(batch);
  const auto sum_of = [&](uint8_t filler) {
    std::fill_n(home.as<uint8_t>(), home.bytes(), filler);
    executor.run(0);
    return executor.result(0).as<int32_t>()[1];
  };
  CHECK(sum_of(1) == 4);
  CHECK(sum_of(2) == 4);
  (void)executor.home(batch);
  CHECK(sum_of(3) == 12);
}

TEST_CASE("a large result is that of the last run, whether or not anybody asked for those before") {
  Graph graph{.name = "large", .axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId batch = b.input("batch", {DType::kU8, {4, 1}, kTokenAxis}, ValueKind::kBatch);
  graph.results = {b.append_one(kSpread, {batch}, {}), b.append_one(kCount, {batch}, {})};
  const Plan plan = plan_for(graph, {}, uniform_choices(graph, ActivationPolicy::kKeep));
  DelayedDevice device(7, 20);
  ThreadPool pool(1);
  Executor executor(graph, plan.program, pool, {.tiers = {.device = &device}});
  for (uint8_t filler = 1; filler < 12; ++filler) {
    const TensorView home = executor.home(batch);
    std::fill_n(home.as<uint8_t>(), home.bytes(), filler);
    executor.run(0);
    CHECK(executor.result(1).as<int32_t>()[1] == 4 * filler);
    if (filler % 3 == 0) continue;
    for (int i = 0; i < 2; ++i) {
      const TensorView spread = executor.result(0);
      CHECK(spread.as<uint8_t>()[0] == filler);
      CHECK(spread.as<uint8_t>()[spread.elems() - 1] == filler);
    }
  }
}
