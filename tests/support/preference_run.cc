#include "tests/support/preference_run.h"
#include "job/initial_state.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "job/tiers.h"
#include "saved/base_identity.h"
#include "tests/support/captured.h"
#include "tests/support/source_folder.h"
#include "tests/support/tiered_machine.h"
#include "train/reference_scores.h"

namespace spillway::testing {

namespace fs = std::filesystem;

namespace {

std::map<std::string, double> by_name(std::span<const train::Metric> metrics) {
  std::map<std::string, double> result;
  for (const train::Metric& metric : metrics) result[std::string(metric.key)] = metric.value;
  return result;
}

// Returns listeners that record a run.
train::TrainingListeners listeners_of(PreferenceRun& run) {
  train::TrainingListeners listeners;
  listeners.step = [&run](const train::StepRecord& record) {
    auto& step = run.steps.emplace_back(by_name(record.metrics));
    step["loss"] = record.loss;
    step["grad_norm"] = record.grad_norm;
    step["learning_rate"] = record.learning_rate;
    step["num_tokens"] = static_cast<double>(record.num_tokens);
  };
  listeners.evaluation = [&run](const train::EvaluationRecord& record) {
    run.evaluations.push_back(by_name(record.metrics));
  };
  return listeners;
}

// Writes a copy of an adapter that says another dropout, beside the run's output. Returns its folder.
fs::path with_dropout(const fs::path& adapter, const std::string& dropout, const fs::path& output) {
  const fs::path copy = output.parent_path() / ("adapter_of_dropout_" + dropout);
  fs::copy(adapter, copy, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  auto config = nlohmann::json::parse(read_file(copy / "adapter_config.json", 1 << 20));
  config["lora_dropout"] = std::stod(dropout);
  std::ofstream(copy / "adapter_config.json") << config;
  return copy;
}

}  // namespace

fs::path preference_goldens() { return source_folder() / "tests/golden/preference_training"; }

std::vector<std::string> preference_cases() { return golden_cases(preference_goldens()); }

std::vector<std::string> golden_cases(const fs::path& goldens) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(goldens / "cases"))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

config::Config preference_config(const std::string& name, const fs::path& output,
                                 const std::vector<config::ConfigOverride>& changes) {
  return golden_config(preference_goldens() / "cases" / name, output, changes);
}

config::Config golden_config(const fs::path& folder, const fs::path& output,
                             const std::vector<config::ConfigOverride>& changes) {
  std::vector<config::ConfigOverride> all = {{"output_dir", output.string()}};
  const std::string file = (folder / "config.yml").string();
  const config::LoadedConfig said = config::check_config_file(file, all, config::ConfigUse::kTrain);
  const auto resolve = [&](const std::string& key, const std::string& path) {
    if (!path.empty()) all.push_back({key, (folder / path).lexically_normal().string()});
  };
  resolve("base_model", said.keys.base_model);
  const auto dropout = std::find_if(changes.begin(), changes.end(),
                                    [](const config::ConfigOverride& change) { return change.key == "lora_dropout"; });
  if (dropout == changes.end() || said.keys.lora_model_dir.empty()) {
    resolve("lora_model_dir", said.keys.lora_model_dir);
  } else {
    const fs::path adapter = folder / said.keys.lora_model_dir;
    all.push_back({"lora_model_dir", with_dropout(adapter, dropout->value, output).string()});
  }
  resolve("ref_model", said.keys.ref_model);
  resolve("teacher_model_name_or_path", said.keys.teacher_model_name_or_path);
  resolve("value_model_path", said.keys.value_model_path);
  resolve("reward_model_path", said.keys.reward_model_path);
  resolve("datasets.0.path", said.keys.datasets.at(0).config.path);
  all.insert(all.end(), changes.begin(), changes.end());
  return config::load_config_file(file, all, config::ConfigUse::kTrain).config;
}

int64_t device_bytes_of(const config::Config& config) {
  const Machine machine = tiered_machine();
  return train::arena_bytes(train::plan_job(train::make_job(config, machine), machine), Tier::kDevice);
}

PreferenceRun run_preference(const config::Config& config, train::MakeRounds make_rounds,
                             std::function<void(const train::RoundRecord&)> on_round) {
  PreferenceRun run{.output = config.output.output_dir};
  create_folders(run.output);
  const Machine machine = tiered_machine();
  const train::Job job = train::make_job(config, machine);
  train::PlannedJob planned = train::plan_job(job, machine);
  REQUIRE(planned.plan.fits);
  train::TrainingData data;
  (void)capture([&] {  // counts of rows
    data = job.kind->load(job, {}, [](int64_t) {});
    return 0;
  });
  ThreadPool pool(machine.threads);
  const train::InitialState initial(job);
  const train::JobTiers tiers(job, planned);
  train::TrainingSession session(job, planned, pool, tiers.options());
  const train::BaseIdentity base = train::identify_base(initial.base());
  train::TrainingListeners listeners = listeners_of(run);
  listeners.round = std::move(on_round);
  train::Trainer trainer(job, session, data, train::choose_start(job.config.output), base, std::move(listeners),
                         std::move(make_rounds));
  initial.load(job, planned.training, session.store());
  train::Ranks alone;
  if (job.graph.reference.is_precomputed)
    run.read_known_scores =
        train::load_reference_scores(job, planned, initial.reference(), session, data, alone, [](int64_t, int64_t) {
        }).was_there;
  trainer.load_checkpoint();
  (void)trainer.run();
  return run;
}

}  // namespace spillway::testing
