// Tests that the completions and weights of a run of online reinforcement learning depend only on its seed: not on the
// plan, on how many completions are generated at once, or on a stop in the middle of a round.
#include <doctest/doctest.h>

#include <cmath>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/file.h"
#include "job/measure_job.h"
#include "rewards/rewards.h"
#include "tests/support/cache_folder.h"
#include "tests/support/cpu_share.h"
#include "tests/support/pairing.h"
#include "tests/support/preference_run.h"
#include "tests/support/source_folder.h"
#include "tests/support/tiered_machine.h"
#include "train/online/completion_lines.h"
#include "train/online/generated_rounds.h"
#include "train/online/job_rewards.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

using Change = config::ConfigOverride;
using Changes = std::vector<Change>;

struct Outcome {
  std::vector<std::map<std::string, double>> steps, evaluations;
  std::vector<std::string> lines;  // of completions.jsonl
  std::string weights;

  bool operator==(const Outcome&) const = default;
};

Changes and_also(Changes changes, const Change& one) {
  changes.push_back(one);
  return changes;
}

// Functions that need no other program, one of them a model.
Change reward_functions() {
  return {"trl.reward_funcs",
          "[{name: get_soft_overlong_punishment, max_completion_len: 8, soft_punish_cache: 6}, "
          "{name: get_repetition_penalty_reward, ngram_size: 1}, " +
              (preference_goldens() / "reward_model").string() + "]"};
}

void forget_times(std::vector<std::map<std::string, double>>& lines) {
  for (auto& line : lines)
    for (const char* key : {"generation_seconds", "reward_seconds", "generation_tokens_per_second"}) line.erase(key);
}

Outcome outcome_of(const std::string& name, const fs::path& output, Changes changes) {
  changes.push_back(reward_functions());
  const config::Config config = golden_config(source_folder() / "tests/golden" / name, output, changes);
  const train::Job job = train::make_job(config, Machine{});
  train::JobRewards models(job);
  rewards::RewardFunctions functions(*config.rewards, models.factory());
  train::Ranks alone;
  Outcome outcome;
  PreferenceRun run = run_preference(
      config,
      [&](train::TrainingSession& session, int64_t total_steps) {
        models.attach(session, alone);
        return std::make_unique<train::GeneratedRounds>(job, session, &functions, models, alone, total_steps, nullptr);
      },
      [&](const train::RoundRecord& record) {
        std::istringstream lines(train::completion_lines(job, functions.names(), record));
        for (std::string line; std::getline(lines, line);) outcome.lines.push_back(line);
      });
  forget_times(run.steps);
  forget_times(run.evaluations);
  outcome.steps = std::move(run.steps);
  outcome.evaluations = std::move(run.evaluations);
  outcome.weights = read_file(output / (config.adapter ? "adapter_model.safetensors" : "model.safetensors"), 1 << 24);
  return outcome;
}

}  // namespace

TEST_CASE("no plan changes what online training generates or learns, nor how much is generated at once") {
  const std::vector<Changes> plans = {{{"memory.generation_sequences", "1"}},
                                      {{"memory.generation_sequences", "3"}},
                                      {{"gradient_checkpointing", "true"}},
                                      {{"activation_offloading", "disk"}},
                                      {{"micro_batch_order", "vertical"}, {"parameter_offload", "host"}},
                                      {{"parameter_offload", "host"}},
                                      {{"parameter_offload", "disk"}, {"optimizer_offload", "disk"}},
                                      {{"parameter_offload", "host"}, {"ds3_gather_for_generation", "true"}},
                                      {{"parameter_offload", "host"}, {"ds3_gather_for_generation", "false"}},
                                      {{"parameter_offload", "disk"}, {"ds3_gather_for_generation", "true"}}};
  constexpr const char* kNames[] = {"online_rl/cases/dapo_lora",   "online_rl/cases/grpo_full",
                                    "online_rl/cases/beta_full",   "online_rl/cases/slices_lora",
                                    "online_rl/cases/rloo_lora",   "online_rl/cases/online_dpo_cut_lora",
                                    "ppo/cases/mini_batches_lora", "ppo/cases/mini_batches_full"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const char* const name = kNames[i];
    CAPTURE(name);
    const TemporaryFolder folder;
    Changes common = {{"val_set_size", "3"}};
    if (std::string_view(name).ends_with("_lora")) common.push_back({"lora_dropout", "0.2"});
    const Outcome plain = outcome_of(name, folder.path() / "plain", and_also(common, {"memory.plan", "fixed"}));
    CHECK(!plain.lines.empty());
    for (size_t j = 0; j < plans.size(); ++j) {
      if (!is_paired(i, j, plans.size(), 4)) continue;
      Changes changes = plans[j];
      CAPTURE(changes.front().key);
      CAPTURE(changes.front().value);
      changes.insert(changes.end(), common.begin(), common.end());
      const Outcome other = outcome_of(name, folder.path() / "other", changes);
      CHECK(other.lines == plain.lines);
      CHECK(other.steps == plain.steps);
      CHECK(other.evaluations == plain.evaluations);
      CHECK(other.weights == plain.weights);
    }
  }
}

TEST_CASE("reward models score completions layer by layer with the rewards of one micro-batch after another") {
  const TemporaryFolder folder;
  const auto scored = [&](const char* order, bool in_groups) {
    Changes changes = {{"parameter_offload", "disk"}, {"micro_batch_order", order}, {"memory.plan", "fixed"}};
    Outcome outcome = outcome_of("online_rl/cases/grpo_full", folder.path() / order, changes);
    changes.push_back(reward_functions());
    const config::Config config =
        golden_config(source_folder() / "tests/golden/online_rl/cases/grpo_full", folder.path() / "plan", changes);
    const train::PlannedJob planned = train::plan_job(train::make_job(config, tiered_machine()), tiered_machine());
    CHECK((planned.together(train::JobProgram::Kind::kReward) > 1) == in_groups);
    return outcome;
  };
  CHECK(scored("vertical", true) == scored("horizontal", false));
}

TEST_CASE("online training that stops in the middle of a round goes on to the same bits") {
  for (const char* name :
       {"online_rl/cases/dapo_twice_lora", "online_rl/cases/grpo_full", "online_rl/cases/slices_thrice_lora",
        "online_rl/cases/online_dpo_full", "ppo/cases/mini_batches_lora", "ppo/cases/plain_full"}) {
    for (const char* step : {"1", "2", "3"}) {
      CAPTURE(name);
      CAPTURE(step);
      const TemporaryFolder folder;
      const Change constant = {"lr_scheduler", "constant"};  // whatever max_steps is
      const Outcome plain = outcome_of(name, folder.path() / "plain", {constant});
      const fs::path cut = folder.path() / "cut";
      const Outcome first =
          outcome_of(name, cut, {constant, {"max_steps", step}, {"save_strategy", "steps"}, {"save_steps", step}});
      const std::string checkpoint = (cut / (std::string("checkpoint-") + step)).string();
      const Outcome rest = outcome_of(name, cut, {constant, {"resume_from_checkpoint", checkpoint}});
      CHECK(rest.weights == plain.weights);
      std::vector<std::string> lines = first.lines;
      lines.insert(lines.end(), rest.lines.begin(), rest.lines.end());
      CHECK(lines == plain.lines);
    }
  }
}

TEST_CASE("online training has feed-forward parts in tiles where it learns, and generates as without") {
  for (const char* name : {"online_rl/cases/rloo_lora", "ppo/cases/mini_batches_full"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const Outcome whole = outcome_of(name, folder.path() / "whole", {{"memory.plan", "fixed"}});
    const Outcome tiled =
        outcome_of(name, folder.path() / "tiled", {{"tiled_mlp", "true"}, {"tiled_mlp_num_shards", "3"}});
    REQUIRE(tiled.steps.size() == whole.steps.size());
    CHECK(tiled.lines.front() == whole.lines.front());
    CHECK(tiled.steps.front().at("loss") == doctest::Approx(whole.steps.front().at("loss")).epsilon(1e-4));
  }
}

TEST_CASE("dropout is a matter of the pass that gradients are taken of, and of no program beside training") {
  const TemporaryFolder folder;
  for (const char* name : {"online_rl/cases/dapo_twice_lora", "online_rl/cases/rloo_lora"}) {
    CAPTURE(name);
    const train::Job job = train::make_job(golden_config(source_folder() / "tests/golden" / name, folder.path() / "out",
                                                         {{"lora_dropout", "0.2"}, reward_functions()}),
                                           Machine{});
    const train::PlannedJob planned = train::plan_job(job, Machine{});
    CHECK(planned.training.graph.find("batch.dropout_seed") != kNone);
    CHECK(planned.beside.size() > 2);
    for (const train::JobProgram& program : planned.beside) {
      CAPTURE(program.name);
      CHECK(program.graph.find("batch.dropout_seed") == kNone);
    }
  }
}

TEST_CASE("the log-probabilities of generated tokens are those of a forward pass of that step's policy") {
  const TemporaryFolder folder;
  for (const char* name :
       {"online_rl/cases/dapo_twice_lora", "online_rl/cases/rloo_lora", "ppo/cases/mini_batches_lora"}) {
    CAPTURE(name);
    const Outcome run = outcome_of(name, folder.path() / name, {});
    int64_t rounds = 0;
    for (const auto& step : run.steps) {
      const auto difference = step.find("sampling/sampling_logp_difference/max");
      if (difference == step.end()) continue;  // no round began there
      CHECK(difference->second < 1e-3);
      ++rounds;
    }
    CHECK(rounds > 1);
  }
}

// Their states have a row for each sequence, and keys and values one for each token.
TEST_CASE("a job whose model has layers with a state is measured with rows that its caches have") {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "model", goldens = source_folder() / "tests/golden";
  fs::create_directory(model);
  const fs::path tokenizer = goldens / "online_rl/model_qwen3";
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) fs::copy_file(tokenizer / file, model / file);
  for (const char* name : {"lfm2", "qwen3_next", "granitemoehybrid", "nemotron_h", "falcon_h1", "jamba"}) {
    CAPTURE(std::string(name));
    auto keys = nlohmann::json::parse(read_file(goldens / "models" / name / "config.json", 1 << 20));
    keys["vocab_size"] = 420;
    keys["max_position_embeddings"] = 512;
    write_file(model / "config.json", keys.dump());
    train::Job job =
        train::make_job(golden_config(goldens / "online_rl/cases/rloo_lora", folder.path() / "out",
                                      {{"base_model", model.string()}, {"lora_model_dir", "null"}, reward_functions()}),
                        Machine{});
    job.budget.device.reset();  // measuring takes no more than a job may
    const train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
    Machine machine{.threads = 2};
    const FixedCpuShare quiet(1);
    const CacheFolder cache;
    train::measure_job(job, training, machine);
    CHECK_FALSE(machine.operations.empty());
  }
}
