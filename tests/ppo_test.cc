// PPO trains as TRL 1.10's PPOTrainer does: given the completions that a run of it generated, the same values,
// advantages, returns and losses in each round, and the weights of policy and value model after them. The numbers are
// TRL's own: tools/make_ppo_goldens.py.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/safetensors.h"
#include "job/job.h"
#include "tests/support/golden_weights.h"
#include "tests/support/recorded_rounds.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

fs::path goldens() { return source_folder() / "tests/golden/ppo"; }

config::Config ppo_config(const std::string& name, const fs::path& output,
                          const std::vector<config::ConfigOverride>& changes = {}) {
  return golden_config(goldens() / "cases" / name, output, changes);
}

void check_numbers(const std::vector<float>& ours, const ordered_json& theirs) {
  REQUIRE(ours.size() >= theirs.size());  // the value behind the last token is of use to some completions only
  for (size_t i = 0; i < theirs.size(); ++i) {
    CAPTURE(i);
    CHECK(ours[i] == doctest::Approx(theirs[i].get<double>()).epsilon(2e-3));
  }
}

void check_tokens(const ordered_json& round, const train::RoundRecord& record) {
  for (size_t i = 0; i < record.round->completions.size(); ++i) {
    CAPTURE(i);
    const train::Completion& ours = record.round->completions[i];
    const ordered_json& theirs = round.at("completions").at(i);
    check_numbers(ours.old_logps, theirs.at("logprobs"));
    check_numbers(ours.values, theirs.at("values"));
    check_numbers(ours.advantages, theirs.at("advantages"));
    check_numbers(ours.returns, theirs.at("returns"));
    CHECK(ours.returns.size() == theirs.at("returns").size());
  }
}

std::string message_of(const std::string& name, const std::vector<config::ConfigOverride>& changes) {
  const TemporaryFolder folder;
  try {
    (void)train::make_job(ppo_config(name, folder.path() / "out", changes), Machine{});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("PPO trains policy and value model as TRL 1.10 does") {
  int64_t checked = 0;
  for (const std::string& name : golden_cases(goldens())) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const fs::path golden = goldens() / "cases" / name;
    const config::Config config = ppo_config(name, folder.path() / "out");
    const ordered_json expected = ordered_json::parse(read_file(golden / "expected.json", 1 << 22));
    const PreferenceRun run = check_recorded_case(golden, config, [&](const train::RoundRecord& record) {
      check_tokens(expected.at("rounds").at(static_cast<size_t>(record.round->number)), record);
    });
    for (const auto& step : run.steps) {
      const double value = config.online->ppo.vf_coef * step.at("loss/value_avg");
      CHECK(step.at("loss") == doctest::Approx(step.at("loss/policy_avg") + value).epsilon(1e-5));
    }
    const fs::path state = run.output / "checkpoint-3/spillway_state.safetensors";
    CHECK(distance_of_weights(golden / "value.safetensors", goldens() / "value_model/model.safetensors", state,
                              "value.") <= kMostOffOfUpdate);
    ++checked;
  }
  CHECK(checked == 6);
}

TEST_CASE("the value model is no part of what PPO writes for inference") {
  const TemporaryFolder folder;
  const std::string name = "plain_full";
  const config::Config config = ppo_config(name, folder.path() / "out", {{"max_steps", "1"}});
  const ordered_json expected = ordered_json::parse(read_file(goldens() / "cases" / name / "expected.json", 1 << 22));
  const PreferenceRun run = run_preference(config, [&](train::TrainingSession&, int64_t) {
    return std::make_unique<RecordedRounds>(expected.at("rounds"));
  });
  const SafetensorsFile written(run.output / "model.safetensors");
  for (const StoredTensor& tensor : written.tensors()) {
    CHECK(!tensor.name.starts_with("value."));
    CHECK(tensor.name.find("score") == std::string::npos);
  }
}

TEST_CASE("policy and value model are planned under one budget, which changes no bit of either") {
  const TemporaryFolder folder;
  const std::string name = "mini_batches_full";
  const ordered_json expected = ordered_json::parse(read_file(goldens() / "cases" / name / "expected.json", 1 << 22));
  const auto trained = [&](const std::string& output, const std::vector<config::ConfigOverride>& changes) {
    const config::Config config = ppo_config(name, folder.path() / output, changes);
    const PreferenceRun run = run_preference(config, [&](train::TrainingSession&, int64_t) {
      return std::make_unique<RecordedRounds>(expected.at("rounds"));
    });
    return read_file(run.output / "checkpoint-3/spillway_state.safetensors", 1 << 24);
  };
  const int64_t whole = device_bytes_of(ppo_config(name, folder.path() / "whole", {{"memory.plan", "fixed"}}));
  const std::string plain = trained("plain", {});
  for (const int64_t percent : {85, 70}) {
    CAPTURE(percent);
    CHECK(trained(fmt::format("{}", percent),
                  {{"memory.device", fmt::format("{}", whole * percent / 100)}, {"memory.host", "16MiB"}}) == plain);
  }
}

TEST_CASE("PPO refuses folders that cannot be its value model or its reward model, before any weight is read") {
  const fs::path preference = preference_goldens();
  CHECK(message_of("plain_lora", {{"value_model_path", (preference / "step_model").string()}})
            .find("expected a classifier of one label, or a model of text") != std::string::npos);
  CHECK(message_of("plain_lora", {{"reward_model_path", (preference / "model").string()}})
            .find("expected a classifier of one label") != std::string::npos);
  CHECK(message_of("plain_lora", {{"value_model_path", "/nowhere/at/all"}}).find("/nowhere/at/all") !=
        std::string::npos);
  CHECK(message_of("plain_lora", {{"num_mini_batches", "40"}}).find("num_mini_batches") != std::string::npos);
}

TEST_CASE("a model of text becomes a value model with a score that is new") {
  CHECK(message_of("plain_lora", {{"value_model_path", (preference_goldens() / "model").string()}}).empty());
}
