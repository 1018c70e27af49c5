// A step allocates nothing: neither the kernels, nor the session, nor the loop around it, nor its line of metrics.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/temporary_folder.h"
#include "report/metrics.h"
#include "tests/support/count_allocations.h"
#include "tests/support/tiny_training.h"
#include "train/trainer.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr int64_t kWarmUp = 2, kCounted = 10;

// The four kinds of job whose programs differ most.
std::vector<TinySetup> setups() {
  std::vector<TinySetup> result;
  for (const char* adapter : {"", "adapter"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      result.push_back({.adapter = adapter, .dtype = dtype, .dropout = *adapter ? 0.1 : 0});
    }
  }
  return result;
}

int64_t allocations_of_steps(TinyTraining& training, const std::vector<FlatBatch>& micro_batches) {
  std::optional<AllocationCounter> counter;
  for (int64_t step = 0; step < kWarmUp + kCounted; ++step) {
    if (step == kWarmUp) counter.emplace();
    training.accumulate(std::span(micro_batches).subspan(static_cast<size_t>(2 * step), 2), 0.01, step);
    training.update();
  }
  return counter->count();
}

// Rows of the golden batches, all in one epoch.
train::TrainingData rows_of(const nlohmann::json& steps) {
  std::vector<data::Row> rows;
  for (const nlohmann::json& step : steps) {
    for (const nlohmann::json& micro_batch : step) {
      for (const nlohmann::json& sequence : micro_batch) {
        rows.push_back({.input_ids = sequence["input_ids"].get<std::vector<int32_t>>(),
                        .labels = sequence["labels"].get<std::vector<int32_t>>()});
      }
    }
  }
  train::TrainingData data;
  data.training = data::RowTable(rows);
  return data;
}

}  // namespace

TEST_CASE("allocations are counted in every build without a sanitizer that has an allocator of its own") {
  CHECK(AllocationCounter::works() == (SPILLWAY_REPLACES_MALLOC == 0));
}

TEST_CASE("the counter sees what C, C++ and other threads allocate" * doctest::skip(!AllocationCounter::works())) {
  void* volatile memory = nullptr;  // so that no allocation is optimised away
  const auto counted = [&](const auto& body) {
    const AllocationCounter counter;
    body();
    return counter.count();
  };
  CHECK(counted([] {}) == 0);
  CHECK(counted([&] { memory = malloc(10); }) == 1);
  free(memory);
  CHECK(counted([&] { memory = calloc(2, 10); }) == 1);
  CHECK(counted([&] { memory = realloc(memory, 1000); }) == 1);
  free(memory);
  CHECK(counted([&] { memory = aligned_alloc(64, 128); }) == 1);
  free(memory);
  CHECK(counted([&] { memory = new int(1); }) == 1);
  delete static_cast<int*>(memory);
  CHECK(counted([&] { memory = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }) == 1);
  munmap(memory, 4096);
  CHECK(counted([&] { std::thread([&] { memory = malloc(10); }).join(); }) >= 1);
  free(memory);
}

TEST_CASE("ten steps of a session allocate nothing" * doctest::skip(!AllocationCounter::works())) {
  const std::vector<FlatBatch> micro_batches = all_micro_batches();
  REQUIRE(std::ssize(micro_batches) >= 2 * (kWarmUp + kCounted));
  for (const TinySetup& setup : setups()) {
    CAPTURE(setup.adapter);
    CAPTURE(name_of(setup.dtype));
    TinyTraining training(kGoldenModels / "qwen3", setup);
    CHECK(allocations_of_steps(training, micro_batches) == 0);
  }
}

TEST_CASE("ten steps of the trainer, batches and metrics included, allocate nothing" *
          doctest::skip(!AllocationCounter::works())) {
  const train::TrainingData data = rows_of(tiny_batches()["train"]);
  for (const TinySetup& setup : setups()) {
    for (const bool packing : {false, true}) {
      CAPTURE(setup.adapter);
      CAPTURE(name_of(setup.dtype));
      CAPTURE(packing);
      const TemporaryFolder folder;
      train::Job job = tiny_job(kGoldenModels / "qwen3", setup);
      job.config.output.output_dir = folder.path().string();
      job.config.output.save = {.kind = config::Interval::Kind::kNever};
      job.config.data.batches = {.rows = packing ? 1 : 2, .sequence_len = 24};
      if (packing) job.config.data.batches.packing = data::PackingStrategy::kFirstFit;
      job.config.schedule.max_steps = kWarmUp + kCounted + 1;
      job.config.schedule.learning_rate = 0.01;
      TinyTraining training(std::move(job), setup.threads);
      MetricsWriter metrics(folder.path() / "metrics.jsonl", 0);

      std::optional<AllocationCounter> counter;
      int64_t counted = -1;
      const auto on_step = [&](const train::StepRecord& r) {
        metrics.write({{"step", r.step}, {"epoch", r.epoch}, {"loss", r.loss}, {"num_tokens", r.num_tokens}});
        if (r.step == kWarmUp) counter.emplace();
        if (r.step == kWarmUp + kCounted) {
          counted = counter->count();
          counter.reset();
        }
      };
      train::Trainer trainer(training.job(), training.session(), data, {}, {}, {.step = on_step});
      REQUIRE(trainer.length().epoch.steps() > kWarmUp + kCounted);
      CHECK(trainer.run().steps == kWarmUp + kCounted + 1);
      CHECK(counted == 0);
    }
  }
}
