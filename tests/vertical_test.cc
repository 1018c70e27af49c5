// Micro-batches that are computed layer by layer have the bits of one after another, and share what moves.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/sizes.h"
#include "model/storages/quantised.h"
#include "plan/moved_bytes.h"
#include "saved/state.h"
#include "tests/support/mode_jobs.h"
#include "tests/support/tiered_machine.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr size_t kVerticalAccumulation = 4;

struct VerticalCase {
  std::string model;
  TinySetup setup;
};

// Full fine-tuning with a tied table, in bf16 and f32, and of a mixture whose loss pools all layers, LoRA and DoRA with
// dropout and noise, and over NF4, and of layers that share keys.
std::vector<VerticalCase> vertical_cases() {
  return {{"qwen2_tied", {.dtype = DType::kBF16, .threads = 1}},
          {"gemma2", {.dtype = DType::kF32, .threads = 1}},
          {"mixtral", {.dtype = DType::kF32, .router_aux_loss_coef = 0.5, .threads = 1}},
          {"qwen3", {.adapter = "adapter", .dtype = DType::kBF16, .dropout = 0.1, .threads = 1}},
          {"qwen3", {.adapter = "adapter_dora", .dtype = DType::kBF16, .dropout = 0.1, .noise = 5, .threads = 1}},
          {"llama2",
           {.adapter = "adapter",
            .dtype = DType::kBF16,
            .dropout = 0.1,
            .threads = 1,
            .linear_storage = LinearStorage{quantised_storage({WeightCoding::kNf4, 64, true, DType::kBF16})}}},
          {"gemma4_e2b", {.adapter = "adapter", .dtype = DType::kBF16, .dropout = 0.1, .threads = 1}}};
}

// A group of kVerticalAccumulation is a whole step, which may have fewer micro-batches.
train::Job vertical_job(train::Job job, double max_grad_norm) {
  job.graph.max_grad_norm = max_grad_norm;
  job.graph.is_whole_step = job.graph.micro_batches == static_cast<int64_t>(kVerticalAccumulation);
  return job;
}

TinyOutcome vertical_outcome(const VerticalCase& c, int64_t group, const std::string& lines, size_t accumulation,
                             double max_grad_norm = 1) {
  TinySetup setup = c.setup;
  setup.micro_batches = group;
  const ModeJobs jobs(setup, c.model);
  const train::Job job = vertical_job(jobs.job(lines), max_grad_norm);
  std::optional<train::JobTiers> tiers;
  TinyTraining training(job, jobs.machine(), [&](const train::PlannedJob& planned) {
    REQUIRE(planned.plan.fits);
    return tiers.emplace(job, planned).options();
  });
  return outcome_of(training, ModeJobs::kSteps, accumulation);
}

const char* const kModesOfGroups[] = {
    "gradient_checkpointing: true\nlayer_offloading: disk\n",
    "activation_offloading: disk\nparameter_offload: host\ngradient_offload: disk\noptimizer_offload: host\n"};

// Mixtures whose experts are frozen, have adapters, train, and stand beside a feed-forward.
std::vector<VerticalCase> streamed_cases() {
  return {{"qwen3_moe", {.adapter = "adapter", .dtype = DType::kBF16, .dropout = 0.1, .threads = 1}},
          {"qwen3_moe", {.adapter = "adapter_experts", .dtype = DType::kBF16, .threads = 1}},
          {"qwen3_moe", {.dtype = DType::kBF16, .router_aux_loss_coef = 0.5, .threads = 1}},
          {"gemma4_moe", {.adapter = "adapter_experts", .dtype = DType::kBF16, .threads = 1}}};
}

// Four micro-batches of a case in groups, under `lines`.
train::PlannedJob planned_group(const VerticalCase& c, int64_t group, const std::string& lines) {
  TinySetup setup = c.setup;
  setup.micro_batches = group;
  const ModeJobs jobs(setup, c.model);
  train::Job job = jobs.job(lines);
  job.config.batches.gradient_accumulation_steps = kVerticalAccumulation;
  return train::plan_job(job, jobs.machine());
}

// The same of LoRA on a dense model.
train::PlannedJob planned_group(int64_t group, const std::string& lines) {
  return planned_group(vertical_cases()[3], group, lines);
}

// Returns the bytes of the frozen weights of a block; of all blocks for kNone.
int64_t frozen_bytes(const Graph& graph, BlockId block) {
  int64_t bytes = 0;
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::kFrozenWeight || value.block == kNone) continue;
    if (block == kNone || value.block == block) bytes += value.type.bytes();
  }
  return bytes;
}

}  // namespace

TEST_CASE("layer by layer, a step has the losses, norms and weights of one micro-batch after another") {
  for (const VerticalCase& c : vertical_cases()) {
    CAPTURE(c.model);
    CAPTURE(c.setup.adapter);
    const TinyOutcome horizontal = vertical_outcome(c, 1, kPlainJob, kVerticalAccumulation);
    for (const int64_t group : {2, 3}) {  // of 3, the second has two micro-batches without rows
      CAPTURE(group);
      CHECK(vertical_outcome(c, group, kPlainJob, kVerticalAccumulation) == horizontal);
    }
    for (const std::string lines : kModesOfGroups) {
      CAPTURE(lines);
      CHECK(vertical_outcome(c, 4, kPlainJob + lines, kVerticalAccumulation) == horizontal);
    }
  }
}

TEST_CASE("without clipping, a group that is a whole step updates in the backward pass, with the same bits") {
  for (const VerticalCase& c : vertical_cases()) {
    CAPTURE(c.model);
    CAPTURE(c.setup.adapter);
    const TinyOutcome horizontal = vertical_outcome(c, 1, kPlainJob, kVerticalAccumulation, 0);
    CHECK(vertical_outcome(c, 4, kPlainJob, kVerticalAccumulation, 0) == horizontal);
    CHECK(vertical_outcome(c, 4, std::string(kPlainJob) + kModesOfGroups[1], kVerticalAccumulation, 0) == horizontal);
  }
  const VerticalCase c = vertical_cases()[0];
  for (const double max_grad_norm : {0.0, 1.0})
    CHECK(vertical_outcome(c, 4, kPlainJob, 3, max_grad_norm) == vertical_outcome(c, 1, kPlainJob, 3, max_grad_norm));
}

// Short convolutions, delta rules and states of Mamba over streams of several sequences, at which they begin anew.
TEST_CASE("layer by layer, layers with a state have the bits of one micro-batch after another") {
  for (const char* model : {"lfm2", "qwen3_next", "nemotron_h", "falcon_h1", "jamba"}) {
    for (const char* adapter : {"", "adapter"}) {
      CAPTURE(model);
      CAPTURE(adapter);
      const VerticalCase c{model, {.adapter = adapter, .dtype = DType::kBF16, .threads = 1}};
      const TinyOutcome horizontal = vertical_outcome(c, 1, kPlainJob, kVerticalAccumulation);
      CHECK(vertical_outcome(c, 3, kPlainJob, kVerticalAccumulation) == horizontal);
      CHECK(vertical_outcome(c, 4, std::string(kPlainJob) + kModesOfGroups[*adapter ? 0 : 1], kVerticalAccumulation) ==
            horizontal);
    }
  }
}

TEST_CASE("layer by layer, a micro-batch of one token has the bits of one micro-batch after another") {
  std::vector<FlatBatch> batches = all_micro_batches();
  for (const size_t i : {1, 4, 5}) {
    FlatBatch one(nlohmann::json{{{"input_ids", {7}}, {"labels", {7}}}});
    one.labels = {9};
    one.targets = 1;
    batches[i] = one;
  }
  for (const char* model : {"qwen3", "mixtral", "qwen3_next"}) {
    for (const char* adapter : {"", "adapter"}) {
      CAPTURE(model);
      CAPTURE(adapter);
      const auto outcome = [&](int64_t group) {
        const TinySetup setup{.adapter = adapter, .dtype = DType::kBF16, .micro_batches = group, .threads = 1};
        TinyTraining training(vertical_job(tiny_job(kGoldenModels / model, setup), 1), setup.threads);
        return outcome_of(training, ModeJobs::kSteps, kVerticalAccumulation, batches);
      };
      const TinyOutcome horizontal = outcome(1);
      for (const int64_t group : {2, 3, 4}) CHECK(outcome(group) == horizontal);
    }
  }
}

TEST_CASE("a checkpoint of one order goes on in the other, bit for bit") {
  const TemporaryFolder folder;
  const VerticalCase c = vertical_cases()[3];
  const TinyOutcome plain = vertical_outcome(c, 1, kPlainJob, kVerticalAccumulation);
  for (const auto& [before, after] : {std::pair<int64_t, int64_t>{1, 4}, {4, 1}, {3, 2}}) {
    CAPTURE(before);
    CAPTURE(after);
    const auto training = [&](int64_t group) {
      TinySetup setup = c.setup;
      setup.micro_batches = group;
      return std::make_unique<TinyTraining>(vertical_job(tiny_job(kGoldenModels / c.model, setup), 1), setup.threads);
    };
    const auto checkpoint = folder.path() / "state.safetensors";
    TinyOutcome outcome;
    const std::unique_ptr<TinyTraining> first = training(before), second = training(after);
    train_steps(*first, 0, 1, kVerticalAccumulation, outcome);
    train::save_optimizer_state(checkpoint, first->training(), first->session().store());
    train::load_optimizer_state(checkpoint, second->training(), second->session().store());
    train_steps(*second, 1, ModeJobs::kSteps, kVerticalAccumulation, outcome);
    collect_state(*second, outcome);
    CHECK(outcome == plain);
    std::filesystem::remove(checkpoint);
  }
}

TEST_CASE("layer by layer, each weight of a layer comes to the device twice a step, not twice a micro-batch") {
  for (const auto& [home, lane] : {std::pair{"host", Lane::kHostToDevice}, {"disk", Lane::kDiskRead}}) {
    CAPTURE(home);
    const std::string lines = fmt::format("{}layer_offloading: {}\ngradient_checkpointing: true\n", kPlainJob, home);
    const auto moved = [&, lane = lane](int64_t group) {
      const train::PlannedJob planned = planned_group(group, lines);
      REQUIRE(planned.context.runs() == static_cast<int64_t>(kVerticalAccumulation) / group);
      const MovedBytes bytes = moved_bytes(planned.training.graph, planned.plan.program, planned.context);
      return nth(nth(bytes, lane), MemoryClass::kFrozenWeight);
    };
    const Graph graph = planned_group(4, lines).training.graph;
    // The last layer stays from the forward pass to the backward pass.
    const auto last = static_cast<BlockId>(std::ssize(graph.blocks) - 1);
    const int64_t twice = 2 * frozen_bytes(graph, kNone) - frozen_bytes(graph, last);
    CHECK(moved(4) == twice);
    CHECK(moved(2) == 2 * twice);
    CHECK(moved(1) == 4 * twice);
  }
}

TEST_CASE("layer by layer, experts that stream have the bits of one micro-batch after another on the device") {
  const char* const kLines[] = {"expert_offload: host\ngradient_checkpointing: true\n",
                                "expert_offload: disk\nlayer_offloading: host\n",
                                "expert_offload: host\noptimizer_offload: disk\ngradient_offload: host\n"};
  for (const VerticalCase& c : streamed_cases()) {
    CAPTURE(c.model);
    CAPTURE(c.setup.adapter);
    const TinyOutcome horizontal = vertical_outcome(c, 1, kPlainJob, kVerticalAccumulation);
    for (const std::string lines : kLines) {
      if (!c.setup.adapter.empty() && lines.find("gradient_offload") != std::string::npos) continue;
      if (c.setup.adapter.empty() && lines.find("layer_offloading") != std::string::npos) continue;
      CAPTURE(lines);
      for (const int64_t group : {3, 4}) {  // of 3, the second has two micro-batches without rows
        CAPTURE(group);
        CHECK(vertical_outcome(c, group, kPlainJob + lines, kVerticalAccumulation) == horizontal);
      }
    }
  }
}

TEST_CASE("layer by layer, experts that stream come once for all micro-batches of a group") {
  for (const std::string lines : {"expert_offload: host\n", "expert_offload: host\ngradient_checkpointing: true\n"}) {
    CAPTURE(lines);
    const auto moved = [&](int64_t group) {
      const train::PlannedJob planned = planned_group(streamed_cases()[0], group, kPlainJob + lines);
      const MovedBytes bytes = moved_bytes(planned.training.graph, planned.plan.program, planned.context);
      return nth(nth(bytes, Lane::kHostToDevice), MemoryClass::kFrozenWeight);
    };
    CHECK(moved(1) > 0);
    CHECK(moved(2) == moved(1) / 2);
    CHECK(moved(4) == moved(1) / 4);
  }
}

TEST_CASE("the program of a group within the least memory trains with the bits of one micro-batch after another") {
  const VerticalCase c = vertical_cases()[3];
  const TinyOutcome horizontal = vertical_outcome(c, 1, kPlainJob, kVerticalAccumulation);
  const std::string tiers = "host: 64KiB, disk: 64MiB";
  const int64_t least = planned_group(4, fmt::format("memory: {{device: 1, {}}}\n", tiers)).plan.peaks[0].bytes;
  CHECK(vertical_outcome(c, 4, fmt::format("memory: {{device: {}, {}}}\n", least, tiers), kVerticalAccumulation) ==
        horizontal);
}
