// Passes without a backward pass take several micro-batches through a layer that comes from slower memory: the same
// bits, and a layer is read once for all of them.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "plan/moved_bytes.h"
#include "tests/support/mode_jobs.h"
#include "tests/support/preference_run.h"
#include "tests/support/tiered_machine.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

using Kind = train::JobProgram::Kind;

constexpr const char* kStreamedLayers = "memory: {plan: fixed}\nlayer_offloading: disk\n";
constexpr const char* kTogether = "micro_batch_order: vertical\n";

// A machine whose disk takes a hundred times as long as the arithmetic.
Machine machine_of_slow_disk() {
  Machine machine = tiered_machine();
  machine.link_bytes_per_second.fill(1e6);
  return machine;
}

ModeJobs jobs_to_evaluate(const std::string& model = "qwen3") {
  TinySetup setup{.dtype = DType::kBF16, .threads = 1};
  if (model == "qwen3") setup.adapter = "adapter";
  return ModeJobs(setup, model);
}

train::PlannedJob planned_to_evaluate(const std::string& lines) {
  return train::plan_job(jobs_to_evaluate().job(lines), machine_of_slow_disk());
}

// Returns the bytes that so many micro-batches bring from the disk.
int64_t bytes_read(const train::JobProgram& program, int64_t micro_batches) {
  const MovedBytes moved = moved_bytes(program.graph, program.plan.program, {});
  int64_t bytes = 0;
  for (const int64_t of_class : nth(moved, Lane::kDiskRead)) bytes += of_class;
  return bytes * div_ceil(micro_batches, std::ssize(program.group));
}

// The loss of each micro-batch, with what was observed of it, evaluated in groups as large as the plan has them.
std::vector<double> evaluated(const std::string& model, const std::string& lines) {
  const ModeJobs jobs = jobs_to_evaluate(model);
  const train::Job job = jobs.job(lines);
  std::optional<train::JobTiers> tiers;
  TinyTraining training(job, machine_of_slow_disk(),
                        [&](const train::PlannedJob& planned) { return tiers.emplace(job, planned).options(); });
  train::TrainingSession& session = training.session();
  const std::vector<FlatBatch> all = all_micro_batches();
  const auto together = static_cast<size_t>(session.planned().together(Kind::kEvaluation));
  std::vector<double> result;
  for (size_t first = 0; first < 2 * all.size() + 1; first += together) {
    std::vector<infer::Batch> batches;
    for (size_t i = first; i < std::min(first + together, 2 * all.size() + 1); ++i)
      batches.push_back(all[i % all.size()].batch());
    std::vector<train::BatchStreams> group;
    for (const infer::Batch& batch : batches) group.emplace_back(std::span(&batch, 1));
    const std::span<const double> losses = session.evaluate_group(group);
    for (size_t i = 0; i < group.size(); ++i) {
      result.push_back(losses[i]);
      for (const std::vector<double>& seen : session.observed(i)) result.push_back(seen.front());
    }
  }
  return result;
}

}  // namespace

TEST_CASE("an evaluation reads a layer from a slow disk once for sixteen micro-batches") {
  const train::PlannedJob one = planned_to_evaluate(kStreamedLayers),
                          all = planned_to_evaluate(std::string(kStreamedLayers) + kTogether);
  CHECK(one.together(Kind::kEvaluation) == 1);
  CHECK(all.together(Kind::kEvaluation) == 16);
  const train::JobProgram &alone = *one.find(Kind::kEvaluation), &grouped = *all.find(Kind::kEvaluation);
  CHECK(bytes_read(alone, 1) > 0);
  CHECK(bytes_read(grouped, 64) == 4 * bytes_read(alone, 1));
  CHECK(8 * bytes_read(grouped, 64) <= bytes_read(alone, 64));
  // No tier needs more than training, which has no budget here.
  for (const Tier tier : kEachBudgetedTier)
    CHECK(nth(grouped.plan.peaks, tier).bytes <=
          std::max(nth(all.plan.peaks, tier).bytes, nth(alone.plan.peaks, tier).bytes));
}

TEST_CASE("in groups, losses and metrics of an evaluation have the bits of one micro-batch after another") {
  for (const char* model : {"qwen3", "gemma2", "mixtral"}) {
    CAPTURE(model);
    CHECK(evaluated(model, std::string(kStreamedLayers) + kTogether) == evaluated(model, kStreamedLayers));
  }
}

TEST_CASE("groups without a backward pass keep to the order, to budgets, and to where they are worth it") {
  const auto together = [](const std::string& lines, const Machine& machine = machine_of_slow_disk()) {
    return train::plan_job(jobs_to_evaluate().job(lines), machine).together(Kind::kEvaluation);
  };
  CHECK(together(std::string(kPlainJob) + kTogether) == 1);  // everything is on the device
  CHECK(together("layer_offloading: disk\n") == 16);
  CHECK(together("layer_offloading: disk\nmicro_batch_order: horizontal\n") == 1);
  CHECK(together(std::string(kStreamedLayers) + kTogether + "gradient_accumulation_steps: 4\nmicro_batch_group: 3\n") ==
        3);
  Machine fast = machine_of_slow_disk();
  fast.link_bytes_per_second.fill(1e12);
  CHECK(together(std::string(kStreamedLayers) + kTogether, fast) == 1);
  // Within a budget, as many as fit.
  const train::PlannedJob one = planned_to_evaluate(kStreamedLayers);
  const int64_t least = std::max(one.plan.peaks[0].bytes, one.find(Kind::kEvaluation)->plan.peaks[0].bytes);
  const std::string within = fmt::format("memory: {{plan: fixed, device: {}, host: 1MiB, disk: 64MiB}}\n{}", least,
                                         "layer_offloading: disk\ngradient_checkpointing: true\n");
  const train::PlannedJob fitted = planned_to_evaluate(within + kTogether);
  CHECK(fits(fitted));
  CHECK(fitted.find(Kind::kEvaluation)->plan.peaks[0].bytes <= least);
}

TEST_CASE("scores of a reference before training are taken in groups, too, with the bits of one after another") {
  const TemporaryFolder folder;
  const auto outcome = [&](const char* name, const std::vector<config::ConfigOverride>& changes, bool in_groups) {
    const config::Config config = preference_config("dpo_sigmoid_full", folder.path() / name, changes);
    const train::Job job = train::make_job(config, tiered_machine());
    CHECK((train::plan_job(job, tiered_machine()).together(Kind::kScoring) > 1) == in_groups);
    return run_preference(config).steps;
  };
  const config::ConfigOverride precomputed = {"precompute_ref_log_probs", "true"};
  CHECK(outcome("groups", {precomputed, {"parameter_offload", "disk"}}, true) ==
        outcome("plain", {precomputed, {"memory.plan", "fixed"}}, false));
}
