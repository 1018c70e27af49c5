// Tests collectives as instructions: what executors of several ranks, as threads, do together.
#include <doctest/doctest.h>

#include <optional>

#include "backend/testing/delayed_device.h"
#include "base/error.h"
#include "base/index.h"
#include "dist/testing/local_peers.h"
#include "ops/collectives/all_gather/all_gather.h"
#include "ops/collectives/part.h"
#include "ops/collectives/reduce_scatter/reduce_scatter.h"
#include "ops/collectives/sum_over_ranks/sum_over_ranks.h"
#include "ops/zero/zero.h"
#include "plan/planner.h"
#include "plan/verify.h"
#include "runtime/executor.h"

using namespace spillway;

namespace {

constexpr int64_t kRows = 90, kColumns = 101, kElems = kRows * kColumns;

// Adds a batch value of each rank to a sum; the update makes the sum whole and clears it.
struct SumJob {
  Graph graph{.name = "sum"};
  ValueId mine, whole;
  Program program;

  explicit SumJob(int ranks) {
    Builder b(graph, backward_section());
    const ValueType type{DType::kF32, {kRows, kColumns}};
    mine = b.input("mine", type, ValueKind::kBatch);
    const ValueId part = b.input("part", ops::part_type(type, ranks), ValueKind::kGradient);
    b.split(part);
    const ValueId sum = ops::reduce_scatter(b, mine, part, ranks);
    b.update(part, sum);
    b.begin_section(update_section());
    whole = ops::all_gather(b, sum, type.shape, ranks);
    b.result(whole);
    b.update(sum, ops::zero(b, sum));
    program = plan_for(graph, Machine{}, uniform_choices(graph, ActivationPolicy::kKeep)).program;
    for (const std::string& violation : verify(graph, program)) FAIL_CHECK(violation);
  }
};

// Numbers of many magnitudes, so that another order of addition has other bits.
float number_of(int rank, int round, int64_t element) {
  const auto mixed = static_cast<uint32_t>(element * 2654435761 + rank * 40503 + round * 9973);
  return static_cast<float>(mixed % 4001) * (mixed % 3 == 0 ? 1e-4f : 3.0f) - 2000;
}

class SumRun {
 public:
  SumRun(const SumJob& job, Peers& peers, Device* device = nullptr) : job_(job), rank_(peers.rank()) {
    executor_.emplace(job.graph, job.program, pool_, ExecutorOptions{.tiers = {.device = device}, .peers = &peers});
    executor_->values().write(
        job.program.homes[0].value == job.mine ? job.program.homes[1].value : job.program.homes[0].value,
        [](const TensorView& piece, int64_t) { std::fill_n(piece.as<float>(), piece.elems(), 0.f); });
  }
  void add(int round, int contributors) {
    const TensorView mine = executor_->home(job_.mine);
    for (int64_t i = 0; i < kElems; ++i) mine.as<float>()[i] = number_of(rank_, round, i);
    executor_->set_contributors(contributors);
    executor_->run(0);
  }
  std::span<const float> sum() {
    executor_->run(1);
    return {executor_->result(0).as<float>(), static_cast<size_t>(kElems)};
  }

 private:
  const SumJob& job_;
  int rank_;
  ThreadPool pool_{1};
  std::optional<Executor> executor_;
};

// Adds up a round of all ranks and one of the first of them, and throws unless the sum is theirs.
void check_step(SumRun& run, int ranks, int step) {
  const int last = ranks - 1 - step;
  run.add(2 * step, ranks);
  run.add(2 * step + 1, last);
  const std::span<const float> got = run.sum();
  int64_t different = 0;
  for (int64_t i = 0; i < kElems; ++i) {
    float want = 0;
    for (int rank = 0; rank < ranks; ++rank) want += number_of(rank, 2 * step, i);
    for (int rank = 0; rank < last; ++rank) want += number_of(rank, 2 * step + 1, i);
    different += nth(got, i) != want;
  }
  if (different > 0) throw machine_error("sum", "{} of {} elements differ", different, kElems);
}

}  // namespace

TEST_CASE("executors of several ranks add up what the first of them have, in order, and make it whole") {
  for (const int ranks : {2, 3, 4}) {
    for (const bool is_late : {false, true}) {  // each rank's device works on its own time, in memory of its own
      CAPTURE(ranks);
      CAPTURE(is_late);
      const SumJob job(ranks);
      const std::vector<std::string> errors = run_ranks(ranks, [&](Peers& peers) {
        testing::DelayedDevice device(static_cast<uint64_t>(peers.rank()), 50);
        SumRun run(job, peers, is_late ? &device : nullptr);
        for (int step = 0; step < 2; ++step) check_step(run, ranks, step);
      });
      for (const std::string& error : errors) CHECK(error == "");
    }
  }
}

TEST_CASE("a rank that ends stops the sections of the others with its name") {
  const SumJob job(3);
  const std::vector<std::string> errors =
      run_ranks(3,
                [&](Peers& peers) {
                  SumRun run(job, peers);
                  for (int round = 0; round < 10; ++round) run.add(round, 3);
                },
                {.faults = {{.kind = LocalFault::Kind::kDead, .rank = 1, .call = 4}}});
  CHECK(errors[1] == "ended");
  for (const int rank : {0, 2}) CHECK(nth(errors, rank).starts_with("[rank 1 on "));
}

TEST_CASE("numbers that the ranks of a group add up are theirs, in order of rank, and groups have rows of their own") {
  constexpr int64_t kRoom = 7;
  constexpr int kGroup = 2;
  Graph graph{.name = "rows", .axes = {{"rows", kRoom}}};
  Builder b(graph, forward_section());
  const ValueId mine = b.input("mine", {DType::kF32, {kRoom}, kTokenAxis}, ValueKind::kBatch);
  b.result(ops::sum_over_ranks(b, mine, kGroup));
  const Program program = plan_for(graph, Machine{}, uniform_choices(graph, ActivationPolicy::kKeep)).program;
  for (const std::string& violation : verify(graph, program)) FAIL_CHECK(violation);
  const std::vector<std::string> errors = run_ranks(4, [&](Peers& peers) {
    ThreadPool pool(1);
    Executor executor(graph, program, pool, {.peers = &peers});
    const int first = peers.rank() - peers.rank() % kGroup;
    const int64_t rows = first == 0 ? kRoom : 3;
    for (int64_t row = 0; row < rows; ++row) executor.home(mine).as<float>()[row] = number_of(peers.rank(), 0, row);
    executor.set_rows(kTokenAxis, rows);
    executor.run(0);
    const TensorView sum = executor.result(0);
    for (int64_t row = 0; row < rows; ++row)
      if (sum.as<float>()[row] != number_of(first, 0, row) + number_of(first + 1, 0, row))
        throw std::runtime_error("another sum");
  });
  for (const std::string& error : errors) CHECK(error == "");
}
