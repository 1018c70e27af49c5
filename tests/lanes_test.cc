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
#include "tests/support/tiny_outcome.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr int64_t kSteps = 2;
constexpr size_t kAccumulation = 2;

// With all that persists, whether training changes it or not.
TinyOutcome whole_outcome_of(TinyTraining& training) {
  TinyOutcome outcome = outcome_of(training, kSteps, kAccumulation);
  const Graph& graph = training.training().graph;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
    if (graph.is_persistent(id)) outcome.state[training.name(id)] = training.bytes(id);
  }
  return outcome;
}

// A training whose plan makes every choice at random, with what that plan needs.
class RandomlyPlanned {
 public:
  RandomlyPlanned(const TinySetup& setup, uint64_t seed, MakeLaneRunner lanes, Device* device = nullptr)
      : training_(tiny_job(kGoldenModels / "qwen3", setup), Machine{.threads = setup.threads},
                  [&](train::PlannedJob& planned) {
                    RandomStream random(seed, 31);
                    Machine machine{.threads = setup.threads};
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

}  // namespace

TEST_CASE("no choice of tiers changes a bit of a job's training, in any order that the waits permit") {
  for (const char* adapter : {"", "adapter"}) {
    for (const DType dtype : kDTypes) {
      const TinySetup setup{.adapter = adapter, .dtype = dtype, .dropout = *adapter ? 0.1 : 0, .threads = 1};
      TinyTraining plain(kGoldenModels / "qwen3", setup);
      const TinyOutcome expected = whole_outcome_of(plain);
      for (uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(adapter);
        CAPTURE(name_of(dtype));
        CAPTURE(seed);
        RandomStream random(seed, 33);
        RandomlyPlanned scripted(setup, seed, scripted_by(random));
        REQUIRE(whole_outcome_of(scripted.training()) == expected);
        RandomlyPlanned threaded(setup, seed, make_lane_threads);
        REQUIRE(whole_outcome_of(threaded.training()) == expected);
        if (seed % 4 != 0) continue;
        DelayedDevice device(seed, 20);
        RandomlyPlanned delayed(setup, seed, make_lane_threads, &device);
        REQUIRE(whole_outcome_of(delayed.training()) == expected);
      }
    }
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
