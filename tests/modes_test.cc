// On the CPU, a plan changes no bit of a training: whatever modes a config names or the planner chooses, and wherever a
// checkpoint goes on.
#include <doctest/doctest.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saved/state.h"
#include "tests/support/mode_jobs.h"
#include "tests/support/pairing.h"

using namespace spillway;
using namespace spillway::testing;

TEST_CASE("every mode gives the losses and weights of the plain run, bit for bit") {
  for (const TinySetup& setup : mode_setups()) check_modes(ModeJobs(setup));
}

TEST_CASE("every mode gives the losses and weights of the plain run of a mixture of experts, bit for bit") {
  for (const char* model : {"qwen2_moe", "jamba"}) {
    CAPTURE(model);
    check_modes(
        ModeJobs({.dtype = DType::kBF16, .router_aux_loss_coef = 0.5, .accumulates = false, .threads = 1}, model));
  }
}

TEST_CASE("every mode gives micro-batches layer by layer the losses and weights of one after another, bit for bit") {
  for (const TinySetup& setup : mode_setups()) check_modes_in_groups(setup);
  check_modes_in_groups({.dtype = DType::kBF16, .router_aux_loss_coef = 0.5, .threads = 1}, "qwen2_moe");
}

// Keys and values that later layers take, and the inputs of all layers, are saved across blocks.
TEST_CASE("every mode gives the losses and weights of the plain run of layers that share keys, bit for bit") {
  for (const char* adapter : {"", "adapter"}) {
    CAPTURE(adapter);
    check_modes(
        ModeJobs({.adapter = adapter, .dtype = DType::kBF16, .accumulates = false, .threads = 1}, "gemma4_e2b"));
  }
}

TEST_CASE("a table of inputs by layer that an adapter leaves alone can stay in host memory or on the disk") {
  const ModeJobs jobs({.adapter = "adapter", .dtype = DType::kBF16, .threads = 1}, "gemma4_e2b");
  const TinyOutcome plain = jobs.outcome(kPlainJob);
  for (const auto& [place, tier] : {std::pair("host", Tier::kHost), {"disk", Tier::kDisk}}) {
    CAPTURE(place);
    const std::string lines = fmt::format("parameter_offload: {}\n{}", place, kPlainJob);
    const train::PlannedJob planned = train::plan_job(jobs.job(lines), jobs.machine());
    const Graph& graph = planned.training.graph;
    const Value& table = graph.value(graph.find("model.embed_tokens_per_layer.weight"));
    CHECK(table.kind == ValueKind::kFrozenWeight);
    CHECK(nth(planned.plan.choices.groups, table.group).home == tier);
    CHECK(jobs.outcome(lines) == plain);
  }
}

TEST_CASE("experts that stream give the losses and weights of the plain run, bit for bit, trained and frozen") {
  const std::string kLines[] = {"expert_offload: host\ngradient_checkpointing: true\n", "expert_offload: disk\n",
                                "expert_offload: host\noptimizer_offload: host\ngradient_offload: host\n"};
  for (const char* adapter : {"", "adapter", "adapter_experts"}) {
    const ModeJobs jobs({.adapter = adapter, .dtype = DType::kBF16, .accumulates = false, .threads = 1}, "qwen3_moe");
    const TinyOutcome plain = jobs.outcome(kPlainJob);
    for (const std::string& lines : kLines) {
      CAPTURE(adapter);
      CAPTURE(lines);
      CHECK(jobs.outcome(lines + kPlainJob) == plain);
    }
    const int64_t all = train::plan_job(jobs.job(kPlainJob), jobs.machine()).plan.peaks[0].bytes;
    CHECK(jobs.outcome(fmt::format("expert_offload: auto\nmemory: {{device: {}}}\n", all * 7 / 10)) == plain);
  }
}

TEST_CASE("stacked experts that stream beside a feed-forward give the plain run's losses and weights, bit for bit") {
  for (const char* adapter : {"", "adapter_experts"}) {
    CAPTURE(adapter);
    const ModeJobs jobs({.adapter = adapter, .dtype = DType::kBF16, .accumulates = false, .threads = 1}, "gemma4_moe");
    const TinyOutcome plain = jobs.outcome(kPlainJob);
    for (const char* lines : {"expert_offload: disk\n", "layer_offloading: host\n"}) {
      CAPTURE(lines);
      CHECK(jobs.outcome(std::string(lines) + kPlainJob) == plain);
    }
  }
}

TEST_CASE("every pair of modes gives the losses and weights of the plain run, bit for bit") {
  for (const TinySetup& setup : mode_setups()) check_pairs_of_modes(ModeJobs(setup));
}

TEST_CASE("layers with a window save their attention where the keys say so, and the bits stay the same") {
  struct Row {
    std::string selective;
    std::vector<ActivationPolicy> attention;  // of a layer that sees everything, and of one with a window
  };
  constexpr ActivationPolicy kKeep = ActivationPolicy::kKeep, kAgain = ActivationPolicy::kRecompute,
                             kHost = ActivationPolicy::kHost;
  const Row kRows[] = {{"true", {kKeep, kAgain}},
                       {"{save_sliding_window: true}", {kKeep, kKeep}},
                       {"{recompute_layer_types: [full_attention], save: [attention, matmul]}", {kAgain, kKeep}},
                       {"{offload: true}", {kHost, kAgain}}};
  const ModeJobs jobs({.threads = 1}, "qwen2_tied");
  const TinyOutcome plain = jobs.outcome(kPlainJob);
  for (const Row& row : kRows) {
    for (const char* plan : {"fixed", "auto"}) {
      CAPTURE(row.selective);
      CAPTURE(plan);
      const std::string lines = fmt::format(
          "gradient_checkpointing: true\nselective_checkpointing: {}\nmemory: {{plan: {}}}\n", row.selective, plan);
      const Plan planned = train::plan_job(jobs.job(lines), jobs.machine()).plan;
      std::vector<ActivationPolicy> attention;
      for (const Saved& saved : planned.choices.saved) attention.push_back(nth(saved, SavedGroup::kAttention));
      CHECK(attention == row.attention);
      CHECK(jobs.outcome(lines) == plain);
    }
  }
}

TEST_CASE("with the planner choosing, every budget gives the losses and weights of the plain run, bit for bit") {
  for (const TinySetup& setup : mode_setups()) check_budgets(ModeJobs(setup));
}

namespace {

// Writes a checkpoint after the first step under each plan, and goes on from it under each.
void check_checkpoints(const ModeJobs& jobs, std::span<const std::string> plans) {
  const TemporaryFolder folder;
  const TinyOutcome plain = jobs.outcome(kPlainJob);
  for (size_t i = 0; i < plans.size(); ++i) {
    for (size_t j = 0; j < plans.size(); ++j) {
      if (!is_paired(i + 1, j, plans.size(), 1)) continue;
      const std::string &before = plans[i], &after = plans[j];
      CAPTURE(before);
      CAPTURE(after);
      TinyOutcome outcome;
      const auto checkpoint = folder.path() / "state.safetensors";
      std::optional<train::JobTiers> tiers;
      {
        TinyTraining training = jobs.training(before, tiers);
        train_steps(training, 0, 1, jobs.accumulation(), outcome);
        train::save_optimizer_state(checkpoint, training.training(), training.session().store());
      }
      TinyTraining training = jobs.training(after, tiers);
      train::load_optimizer_state(checkpoint, training.training(), training.session().store());
      train_steps(training, 1, ModeJobs::kSteps, jobs.accumulation(), outcome);
      collect_state(training, outcome);
      CHECK(outcome == plain);
      std::filesystem::remove(checkpoint);
    }
  }
}

}  // namespace

TEST_CASE("a checkpoint written under one plan goes on under another, bit for bit") {
  const std::string kPlans[] = {kPlainJob, "gradient_checkpointing: true\noptimizer_offload: disk\n",
                                "parameter_offload: disk\ngradient_offload: host\noptimizer_offload: host\n",
                                "activation_offloading: disk\n"};
  for (const TinySetup& setup : mode_setups()) check_checkpoints(ModeJobs(setup), kPlans);
}

TEST_CASE("a checkpoint written with experts on the device goes on with experts that stream, and back") {
  const std::string kPlans[] = {kPlainJob, "expert_offload: host\n"};
  check_checkpoints(ModeJobs({.dtype = DType::kBF16, .accumulates = false, .threads = 1}, "qwen3_moe"), kPlans);
}
