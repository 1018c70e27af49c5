// Every mode that a config can name, alone, in pairs and with the planner choosing the rest: the same losses and
// weights to the last bit as the plain run.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiered_machine.h"
#include "tests/support/tiny_outcome.h"
#include "train/config_load.h"
#include "train/offload_policy.h"
#include "train/state.h"
#include "train/tiers.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

constexpr int64_t kSteps = 2;
constexpr size_t kAccumulation = 2;

struct Mode {
  std::string key, value;
};

const Mode kModes[] = {{"gradient_checkpointing", "true"}, {"selective_checkpointing", "true"},
                       {"activation_offloading", "true"},  {"activation_offloading", "legacy"},
                       {"activation_offloading", "disk"},  {"activation_offloading", "hidden_states"},
                       {"layer_offloading", "host"},       {"layer_offloading", "disk"},
                       {"parameter_offload", "host"},      {"parameter_offload", "disk"},
                       {"gradient_offload", "host"},       {"gradient_offload", "disk"},
                       {"optimizer_offload", "host"},      {"optimizer_offload", "disk"}};

std::string text_of(const std::vector<Mode>& modes) {
  std::string text;
  for (const Mode& mode : modes) text += mode.key + ": " + mode.value + "\n";
  return text;
}

// Tiny jobs set up by the lines of a config.
class ModeJobs {
 public:
  explicit ModeJobs(TinySetup setup) : setup_(std::move(setup)) {}

  [[nodiscard]] train::Job job(const std::string& lines) const {
    train::Job job = tiny_job(kGoldenModels / "qwen3", setup_);
    std::string text =
        fmt::format("base_model: {}\noutput_dir: {}\nlearning_rate: 0.01\ndatasets: [{{path: unused}}]\n{}",
                    job.config.base_model, folder_.path().string(), lines);
    if (!setup_.adapter.empty()) text += "adapter: lora\nlora_model_dir: " + job.config.lora_model_dir + "\n";
    job.config = train::load_config(text, "test", {}, train::ConfigUse::kTrain).config;
    job.policy = train::make_policy(job.config);
    job.budget = train::make_budget(job.config.memory, job.policy, tiered_machine());
    return job;
  }

  [[nodiscard]] TinyTraining training(const std::string& lines, std::optional<train::JobTiers>& tiers) const {
    return {job(lines), tiered_machine(), [&](const train::PlannedJob& planned) {
              REQUIRE(planned.plan.fits);
              return tiers.emplace(job(lines), planned).options();
            }};
  }

 private:
  TinySetup setup_;
  TemporaryFolder folder_;
};

size_t accumulation_of(const TinyTraining& training) { return training.job().graph.accumulates ? kAccumulation : 1; }

TinyOutcome train_in(const ModeJobs& jobs, const std::string& lines) {
  std::optional<train::JobTiers> tiers;
  TinyTraining training = jobs.training(lines, tiers);
  return outcome_of(training, kSteps, accumulation_of(training));
}

const TinySetup kSetups[] = {
    {.dtype = DType::kBF16, .threads = 1},
    {.dtype = DType::kF32, .accumulates = false, .threads = 1},
    {.adapter = "adapter", .dtype = DType::kBF16, .dropout = 0.1, .accumulates = false, .threads = 1}};

}  // namespace

TEST_CASE("every mode gives the losses and weights of the plain run, bit for bit") {
  for (const TinySetup& setup : kSetups) {
    const ModeJobs jobs(setup);
    const TinyOutcome plain = train_in(jobs, "memory: {plan: fixed}\n");
    for (const Mode& mode : kModes) {
      for (const char* plan : {"fixed", "auto"}) {
        CAPTURE(setup.adapter);
        CAPTURE(mode.key);
        CAPTURE(mode.value);
        CAPTURE(plan);
        CHECK(train_in(jobs, text_of({mode}) + fmt::format("memory: {{plan: {}}}\n", plan)) == plain);
      }
    }
  }
}

TEST_CASE("every pair of modes gives the losses and weights of the plain run, bit for bit") {
  for (const TinySetup& setup : kSetups) {
    const ModeJobs jobs(setup);
    const TinyOutcome plain = train_in(jobs, "memory: {plan: fixed}\n");
    for (const Mode& first : kModes) {
      for (const Mode& second : kModes) {
        if (&second <= &first || first.key == second.key) continue;
        CAPTURE(setup.adapter);
        CAPTURE(text_of({first, second}));
        CHECK(train_in(jobs, text_of({first, second}) + "memory: {plan: fixed}\n") == plain);
      }
    }
  }
}

TEST_CASE("with the planner choosing, every budget gives the losses and weights of the plain run, bit for bit") {
  for (const TinySetup& setup : kSetups) {
    const ModeJobs jobs(setup);
    const TinyOutcome plain = train_in(jobs, "memory: {plan: fixed}\n");
    for (const char* tiers : {"", ", host: 64KiB, disk: 64MiB", ", disk: 64MiB", ", host: 16MiB"}) {
      const auto peak = [&](const std::string& device) {
        train::Job job = jobs.job(fmt::format("memory: {{{}{}}}\n", device, tiers));
        return train::plan_job(job, tiered_machine()).plan.peaks[0].bytes;
      };
      const int64_t most = peak("plan: auto"), least = peak("device: 1");
      for (const int64_t quarters : {0, 1, 2, 3}) {
        CAPTURE(setup.adapter);
        CAPTURE(tiers);
        CAPTURE(quarters);
        const int64_t device = least + (most - least) * quarters / 4;
        CHECK(train_in(jobs, fmt::format("memory: {{device: {}{}}}\n", device, tiers)) == plain);
      }
    }
  }
}

TEST_CASE("a checkpoint written under one plan goes on under another, bit for bit") {
  const std::string kPlans[] = {"memory: {plan: fixed}\n", "gradient_checkpointing: true\noptimizer_offload: disk\n",
                                "parameter_offload: disk\ngradient_offload: host\noptimizer_offload: host\n",
                                "activation_offloading: disk\n"};
  const TemporaryFolder folder;
  for (const TinySetup& setup : kSetups) {
    const ModeJobs jobs(setup);
    const TinyOutcome plain = train_in(jobs, kPlans[0]);
    for (const std::string& before : kPlans) {
      for (const std::string& after : kPlans) {
        CAPTURE(before);
        CAPTURE(after);
        TinyOutcome outcome;
        const auto checkpoint = folder.path() / "state.safetensors";
        std::optional<train::JobTiers> tiers;
        {
          TinyTraining training = jobs.training(before, tiers);
          train_steps(training, 0, 1, accumulation_of(training), outcome);
          train::save_optimizer_state(checkpoint, training.training(), training.session().store());
        }
        TinyTraining training = jobs.training(after, tiers);
        train::load_optimizer_state(checkpoint, training.training(), training.session().store());
        train_steps(training, 1, kSteps, accumulation_of(training), outcome);
        collect_state(training, outcome);
        CHECK(outcome == plain);
        std::filesystem::remove(checkpoint);
      }
    }
  }
}
