// Whatever lives where and whichever lane is late: a job's losses and weights keep every bit.
#include <doctest/doctest.h>

#include <optional>

#include "backend/testing/delayed_device.h"
#include "base/math.h"
#include "base/temporary_folder.h"
#include "io/testing/faulty_backend.h"
#include "io/testing/memory_disk.h"
#include "plan/testing/random_plan.h"
#include "runtime/testing/scripted_lanes.h"
#include "tests/support/tiered_machine.h"
#include "tests/support/tiny_outcome.h"
#include "tests/support/video_training.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr int64_t kLaneSteps = 2;
constexpr size_t kAccumulation = 2, kAccumulationOfGroups = 3;

// With all that persists, whether training changes it or not.
template <typename... Batches>
TinyOutcome whole_outcome_of(TinyTraining& training, size_t accumulation, const Batches&... batches) {
  TinyOutcome outcome = outcome_of(training, kLaneSteps, accumulation, batches...);
  const Graph& graph = training.training().graph;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
    if (graph.is_persistent(id)) outcome.state[training.name(id)] = training.bytes(id);
  }
  return outcome;
}

// A training whose plan makes every choice at random, with what that plan needs.
class RandomlyPlanned {
 public:
  RandomlyPlanned(train::Job job, uint64_t seed, MakeLaneRunner lanes, Device* device = nullptr)
      : training_(std::move(job), Machine{.threads = 1}, [&](train::PlannedJob& planned) {
          RandomStream random(seed, 31);
          Machine machine{.threads = 1};
          machine.link_bytes_per_second.fill(1e9);
          plan_again(planned, random_choices(planned.training.graph, random), machine);
          ExecutorOptions options{.tiers = {.device = device}, .lanes = std::move(lanes)};
          options.tiers.disk_backend =
              with_faults(disk_.backend(), DiskFaults{.seed = seed, .delay = 0.5, .shorten = 0.3});
          const int64_t bytes = arena_bytes(planned, Tier::kDisk);
          if (bytes > 0) {
            scratch_.emplace(ScratchOptions{
                .folders = {folder_.path()}, .bytes = align_up(bytes, kDiskAlignment), .checksums = true});
            options.tiers.scratch = &*scratch_;
          }
          return options;
        }) {}

  TinyTraining& training() { return training_; }

 private:
  const TemporaryFolder folder_;
  MemoryDisk disk_;
  std::optional<Scratch> scratch_;
  TinyTraining training_;
};

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};

// Random plans, their lanes in a random order, in threads of their own, and on a device that works on its own time:
// `outcome` of each is that of the plain training.
template <typename MakeJob, typename OutcomeOf>
void check_random_plans(const TinyOutcome& expected, const MakeJob& make_job, uint64_t seeds,
                        const OutcomeOf& outcome) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed, 33);
    RandomlyPlanned scripted(make_job(), seed, scripted_by(random));
    REQUIRE(outcome(scripted.training()) == expected);
    RandomlyPlanned threaded(make_job(), seed, make_lane_threads);
    REQUIRE(outcome(threaded.training()) == expected);
    if (seed % 4 != 0) continue;
    DelayedDevice device(seed, 20);
    RandomlyPlanned delayed(make_job(), seed, make_lane_threads, &device);
    REQUIRE(outcome(delayed.training()) == expected);
  }
}

template <typename MakeJob, typename... Batches>
void check_random_plans(const MakeJob& make_job, uint64_t seeds, const Batches&... batches) {
  const auto outcome = [&](TinyTraining& training) { return whole_outcome_of(training, kAccumulation, batches...); };
  TinyTraining plain(make_job(), 1);
  check_random_plans(outcome(plain), make_job, seeds, outcome);
}

}  // namespace

TEST_CASE("no choice of tiers changes a bit of a job's training, in any order that the waits permit") {
  for (const char* adapter : {"", "adapter"}) {
    for (const DType dtype : kDTypes) {
      CAPTURE(adapter);
      CAPTURE(name_of(dtype));
      const TinySetup setup{.adapter = adapter, .dtype = dtype, .dropout = *adapter ? 0.1 : 0, .threads = 1};
      check_random_plans([&] { return tiny_job(kGoldenModels / "qwen3", setup); }, 20);
    }
  }
}

TEST_CASE("no choice of tiers changes a bit of a group of micro-batches, in any order that the waits permit") {
  const auto without_sums = [](TinyOutcome outcome) {  // which a group that is a whole step does not keep
    std::erase_if(outcome.state, [](const auto& entry) { return entry.first.starts_with("gradient."); });
    return outcome;
  };
  const auto outcome = [&](TinyTraining& training) {
    return without_sums(whole_outcome_of(training, kAccumulationOfGroups));
  };
  for (const char* adapter : {"", "adapter"}) {
    CAPTURE(adapter);
    TinySetup setup{.adapter = adapter, .dtype = DType::kBF16, .dropout = *adapter ? 0.1 : 0, .threads = 1};
    TinyTraining plain(kGoldenModels / "qwen3", setup);
    const TinyOutcome expected = outcome(plain);
    for (const int64_t group : {2, 3}) {
      CAPTURE(group);
      setup.micro_batches = group;
      const auto make_job = [&] {
        train::Job job = tiny_job(kGoldenModels / "qwen3", setup);
        job.graph.is_whole_step = group == kAccumulationOfGroups;
        return job;
      };
      check_random_plans(expected, make_job, 4, outcome);
    }
  }
}

TEST_CASE("no choice of tiers changes a bit of a video transformer's training, in any order that the waits permit") {
  const TemporaryFolder folder;
  for (const bool has_lora : {false, true}) {
    CAPTURE(has_lora);
    const auto make_job = [&] { return video_job("t2v", has_lora, folder.path() / "out", tiered_machine()); };
    check_random_plans(make_job, 5, clip_batches(make_job(), kLaneSteps));
  }
}

TEST_CASE("a training whose passes are captured and replayed keeps every bit") {
  constexpr int64_t kManySteps = 7;
  const TinySetup setup{.adapter = "adapter", .dropout = 0.1, .threads = 1};
  TinyTraining plain(kGoldenModels / "qwen3", setup);
  DelayedDevice device(5, 10);
  TinyTraining captured(tiny_job(kGoldenModels / "qwen3", setup), Machine{.threads = setup.threads},
                        [&](const train::PlannedJob&) { return ExecutorOptions{.tiers = {.device = &device}}; });
  CHECK(outcome_of(captured, kManySteps, kAccumulation) == outcome_of(plain, kManySteps, kAccumulation));
  CHECK(device.replays() > 0);
}
