// Trainings on a GPU against other libraries, other plans, and themselves a thousand steps later. All that is checked
// takes a device: the last case runs the checks, shortened, on one that works on its own time as a GPU does, so that
// they are known to work where there is none.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>

#include "backend/testing/delayed_device.h"
#include "base/bytes.h"
#include "runtime/process_memory.h"
#include "tests/support/count_allocations.h"
#include "tests/support/mode_jobs.h"
#include "tests/support/model_parity.h"
#include "tests/support/require_gpu.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

// Full fine-tuning and LoRA of one model, in f32.
void check_parity(const std::string& model, Device& device) {
  for (const char* adapter : {"", "adapter"}) {
    CAPTURE(model);
    CAPTURE(adapter);
    check_gradients(model, {.adapter = adapter, .device = &device});
    check_curve(model, {.adapter = adapter, .device = &device});
  }
}

TinySetup on(Device& device, TinySetup setup) {
  setup.device = &device;
  return setup;
}

// A job with transfers on every lane that has any.
const char* const kMovingJob =
    "layer_offloading: host\nactivation_offloading: disk\ngradient_offload: host\noptimizer_offload: disk\n";

ModeJobs lora_jobs(Device& device) {
  return ModeJobs({.adapter = "adapter", .dtype = DType::kBF16, .dropout = 0.1, .threads = 1, .device = &device});
}

// Few steps, since tools that watch a GPU take their time.
void check_transfers(Device& device) {
  const ModeJobs jobs = lora_jobs(device);
  std::optional<train::JobTiers> tiers;
  TinyTraining moving = jobs.training(kMovingJob, tiers);
  for (const Lane lane : {Lane::kHostToDevice, Lane::kDeviceToHost, Lane::kDiskRead, Lane::kDiskWrite}) {
    const auto& all = moving.plan().program.instructions;
    CHECK(std::any_of(all.begin(), all.end(), [&](const Instruction& one) { return one.lane == lane; }));
  }
  CHECK(outcome_of(moving, ModeJobs::kSteps, jobs.accumulation()) == jobs.outcome(kPlainJob));
}

struct Taken {
  int64_t device = 0;  // by all who use it; 0 where it has no memory of its own
  int64_t resident = 0;

  explicit Taken(const Device& of)
      : device(of.total_bytes() == 0 ? 0 : of.total_bytes() - of.free_bytes()), resident(current_rss_bytes()) {}
};

// A leak of 5 KiB per step is more, in 900 of them.
constexpr int64_t kMaxGrowth = 4 * kMiB;

// Between step `warm` and the last one nothing more is taken: with all on the device, where passes are captured, and
// with transfers on every lane.
void check_growth(Device& device, int64_t warm, int64_t steps) {
  constexpr int64_t kOfOneLength = 20;  // first, for the captures
  const std::vector<FlatBatch> micro_batches = all_micro_batches();
  REQUIRE(kOfOneLength + std::ssize(micro_batches) <= warm);
  const ModeJobs jobs = lora_jobs(device);
  for (const std::string lines : {kPlainJob, kMovingJob}) {
    CAPTURE(lines);
    std::optional<train::JobTiers> tiers;
    TinyTraining training = jobs.training(lines, tiers);
    std::optional<Taken> before;
    for (int64_t step = 0; step < steps; ++step) {
      if (step == warm) before.emplace(device);
      const auto index = step < kOfOneLength ? 0 : static_cast<size_t>(step) % micro_batches.size();
      REQUIRE(std::isfinite(training.accumulate(std::span(micro_batches).subspan(index, 1), 1e-4, step)));
      training.update();
    }
    const Taken after(device);
    CHECK(after.device == before->device);
    // Tools that look for errors keep what has been freed.
    if (AllocationCounter::works()) CHECK(after.resident - before->resident <= kMaxGrowth);
  }
}

}  // namespace

TEST_CASE("on a GPU: losses, gradients and 20 steps equal those of transformers and torch, and those of peft" *
          doctest::skip(!kHasCuda)) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  for (const std::string model : kTinyModels) check_parity(model, *gpu);
  for (const std::string model : {"llama2", "qwen2_tied"}) {
    CAPTURE(model);
    check_curve(model, {.adapter = "adapter_saved", .device = gpu.get()});
  }
}

TEST_CASE("on a GPU: bf16 follows the curves of f32 within its precision" * doctest::skip(!kHasCuda)) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  for (const std::string model : kTinyModels) {
    for (const char* adapter : {"", "adapter"}) {
      CAPTURE(model);
      CAPTURE(adapter);
      check_bf16_curve(model, {.adapter = adapter, .device = gpu.get()});
    }
  }
}

TEST_CASE("on a GPU: every mode gives the losses and weights of the plain run, bit for bit" *
          doctest::skip(!kHasCuda)) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  for (const TinySetup& setup : mode_setups()) check_modes(ModeJobs(on(*gpu, setup)));
}

TEST_CASE("on a GPU: every pair of modes gives the losses and weights of the plain run, bit for bit" *
          doctest::skip(!kHasCuda)) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  for (const TinySetup& setup : mode_setups()) check_pairs_of_modes(ModeJobs(on(*gpu, setup)));
}

TEST_CASE("on a GPU: every budget gives the losses and weights of the plain run, bit for bit" *
          doctest::skip(!kHasCuda)) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  for (const TinySetup& setup : mode_setups()) check_budgets(ModeJobs(on(*gpu, setup)));
}

TEST_CASE("on a GPU: two steps with transfers on every lane" * doctest::skip(!kHasCuda) *
          doctest::test_suite("compute-sanitizer")) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  check_transfers(*gpu);
}

TEST_CASE("on a GPU: of 1,000 steps the last 900 take no memory" * doctest::skip(!kHasCuda)) {
  const std::shared_ptr<Device> gpu = find_gpu();
  if (!gpu) return;
  check_growth(*gpu, 100, 1000);
}

TEST_CASE("what is checked of a GPU's trainings holds for a device that works on its own time") {
  DelayedDevice device(17, 0);  // a thread a queue is late enough
  SUBCASE("parity") {
    check_parity("llama2", device);
    check_bf16_curve("qwen2_tied", {.adapter = "adapter", .device = &device});
  }
  SUBCASE("modes") { check_modes(ModeJobs(on(device, mode_setups().back()))); }
  SUBCASE("budgets") { check_budgets(ModeJobs(on(device, mode_setups().back()))); }
  SUBCASE("transfers") { check_transfers(device); }
  SUBCASE("growth") { check_growth(device, 60, 100); }
}
