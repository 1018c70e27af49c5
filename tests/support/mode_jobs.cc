#include "tests/support/mode_jobs.h"

#include <doctest/doctest.h>

#include <span>

#include "config/load.h"
#include "job/offload_policy.h"
#include "model/decoder/layer.h"
#include "tests/support/pairing.h"
#include "tests/support/tiered_machine.h"

namespace spillway::testing {
namespace {

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

std::string config_lines(const std::vector<Mode>& modes) {
  std::string text;
  for (const Mode& mode : modes) text += mode.key + ": " + mode.value + "\n";
  const bool is_selective = text.find("selective_checkpointing") != std::string::npos;
  if (is_selective && text.find("gradient_checkpointing") == std::string::npos)
    text += "gradient_checkpointing: true\n";
  return text;
}

}  // namespace

Machine ModeJobs::machine() const {
  Machine machine = tiered_machine();
  machine.device = device_of(setup_).kind();
  return machine;
}

train::Job ModeJobs::job(const std::string& lines) const {
  train::Job job = tiny_job(kGoldenModels / model_, setup_);
  std::string text =
      fmt::format("base_model: {}\noutput_dir: {}\nlearning_rate: 0.01\ndatasets: [{{path: unused}}]\n{}",
                  job.config.model.base_model, folder_.path().string(), lines);
  if (setup_.start) {
    text += "adapter: lora\nlora_r: 4\n";
  } else if (!setup_.adapter.empty()) {
    text += "adapter: lora\nlora_model_dir: " + job.config.adapter->model_dir + "\n";
  }
  job.config = config::load_config(text, "test", {}, config::ConfigUse::kTrain).config;
  job.graph.is_whole_step = setup_.micro_batches > 1 && setup_.micro_batches == static_cast<int64_t>(accumulation_);
  train::take_expert_homes(job);
  job.policy = train::make_policy(job.config.offload, attention_windows(*job.model), job.config.batches.sequence_len);
  job.budget = train::make_budget(job.config.memory, job.policy, machine());
  return job;
}

TinyTraining ModeJobs::training(const std::string& lines, std::optional<train::JobTiers>& tiers) const {
  return {job(lines), machine(), [&](const train::PlannedJob& planned) {
            REQUIRE(planned.plan.fits);
            return tiers.emplace(job(lines), planned, device_of(setup_)).options();
          }};
}

TinyOutcome ModeJobs::outcome(const std::string& lines) const {
  std::optional<train::JobTiers> tiers;
  TinyTraining training = this->training(lines, tiers);
  return outcome_of(training, kSteps, accumulation());
}

std::vector<TinySetup> mode_setups() {
  const std::string padded = R"({"pad_token_id": 42})";  // a token of the batches
  return {{.dtype = DType::kBF16, .config_overrides = padded, .threads = 1},
          {.dtype = DType::kF32, .accumulates = false, .threads = 1},
          {.adapter = "adapter_dora", .dtype = DType::kBF16, .dropout = 0.1, .noise = 5, .threads = 1},
          {.adapter = "adapter", .dtype = DType::kBF16, .dropout = 0.1, .accumulates = false, .threads = 1}};
}

void check_modes(const ModeJobs& jobs) {
  const TinyOutcome plain = jobs.outcome(kPlainJob);
  for (const Mode& mode : kModes) {
    for (const char* plan : {"fixed", "auto"}) {
      CAPTURE(jobs.setup().adapter);
      CAPTURE(mode.key);
      CAPTURE(mode.value);
      CAPTURE(plan);
      CHECK(jobs.outcome(config_lines({mode}) + fmt::format("memory: {{plan: {}}}\n", plan)) == plain);
    }
  }
}

void check_modes_in_groups(TinySetup setup, const std::string& model) {
  constexpr size_t kStep = 3;
  constexpr int64_t kGroups[] = {2, kStep};
  setup.accumulates = true;
  const TinyOutcome plain = ModeJobs(setup, model, kStep).outcome(kPlainJob);
  for (size_t i = 0; i < std::size(kModes); ++i) {
    for (size_t j = 0; j < std::size(kGroups); ++j) {
      if (!is_paired(i, j, std::size(kGroups), 1)) continue;
      setup.micro_batches = kGroups[j];
      CAPTURE(model);
      CAPTURE(setup.adapter);
      CAPTURE(kModes[i].key);
      CAPTURE(kModes[i].value);
      CAPTURE(setup.micro_batches);
      CHECK(ModeJobs(setup, model, kStep).outcome(config_lines({kModes[i]}) + kPlainJob) == plain);
    }
  }
}

void check_pairs_of_modes(const ModeJobs& jobs) {
  const TinyOutcome plain = jobs.outcome(kPlainJob);
  for (const Mode& first : kModes) {
    for (const Mode& second : kModes) {
      if (&second <= &first || first.key == second.key) continue;
      CAPTURE(jobs.setup().adapter);
      CAPTURE(config_lines({first, second}));
      CHECK(jobs.outcome(config_lines({first, second}) + kPlainJob) == plain);
    }
  }
}

void check_budgets(const ModeJobs& jobs) {
  const TinyOutcome plain = jobs.outcome(kPlainJob);
  for (const char* tiers : {"", ", host: 64KiB, disk: 64MiB", ", disk: 64MiB", ", host: 16MiB"}) {
    const auto peak = [&](const std::string& device) {
      const train::Job job = jobs.job(fmt::format("memory: {{{}{}}}\n", device, tiers));
      return train::plan_job(job, jobs.machine()).plan.peaks[0].bytes;
    };
    const int64_t most = peak("plan: auto"), least = peak("device: 1");
    for (const int64_t quarters : {0, 1, 2, 3}) {
      CAPTURE(jobs.setup().adapter);
      CAPTURE(tiers);
      CAPTURE(quarters);
      const int64_t device = least + (most - least) * quarters / 4;
      CHECK(jobs.outcome(fmt::format("memory: {{device: {}{}}}\n", device, tiers)) == plain);
    }
  }
}

}  // namespace spillway::testing
