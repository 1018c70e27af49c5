#include "tests/support/recorded_rounds.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "io/file.h"
#include "tests/support/golden_weights.h"

namespace spillway::testing {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

constexpr double kMostOffRound = 1e-3, kMostOffOfNorm = 1e-2;

// Compares advantages, or for Online DPO and PPO scores.
void check_advantages(const ordered_json& rounds, const train::RoundRecord& record) {
  const ordered_json& expected = rounds.at(static_cast<size_t>(record.round->number)).at("completions");
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    const train::Completion& one = record.round->completions[i];
    const char* const name = expected[i].contains("score") ? "score" : "advantage";
    CHECK((name == std::string("score") ? one.score : one.advantage) ==
          doctest::Approx(expected[i].at(name).get<double>()).epsilon(1e-3));
  }
}

// Returns true unless the key says where a line is.
bool is_comparable_round(const std::string& key) { return key != "step" && key != "epoch" && key != "step_time"; }

// Returns the smallest magnitude to which a relative tolerance applies.
double least_of(const std::string& key) {
  if (key == "learning_rate") return 0;
  return key == "loss" || key == "policy_loss" ? 0.1 : 1;
}

void check_rounds(const ordered_json& expected, const PreferenceRun& run) {
  REQUIRE(run.steps.size() == expected.size());
  for (size_t step = 0; step < run.steps.size(); ++step) {
    CAPTURE(step);
    for (const auto& [key, value] : expected[step].items()) {
      if (!is_comparable_round(key) || value.is_null()) continue;
      CAPTURE(key);
      const auto found = run.steps[step].find(key);
      REQUIRE(found != run.steps[step].end());
      const double trl = value.get<double>(), most = key == "grad_norm" ? kMostOffOfNorm : kMostOffRound;
      CAPTURE(trl);
      CAPTURE(found->second);
      CHECK(std::abs(found->second - trl) <= most * std::max(least_of(key), std::abs(trl)));
    }
  }
}

}  // namespace

RecordedRounds::RecordedRounds(ordered_json rounds) : rounds_(std::move(rounds)) {
  for (const auto& [name, reward] : rounds_.at(0).at("completions").at(0).at("rewards").items()) names_.push_back(name);
}

train::RoundAnswer RecordedRounds::make(const train::RoundRequest& request) {
  const ordered_json& round = rounds_.at(static_cast<size_t>(request.number));
  train::RoundAnswer answer{.order = round.at("order").get<std::vector<int64_t>>()};
  for (const ordered_json& one : round.at("completions")) {
    train::Completion& completion = answer.completions.emplace_back();
    completion.row = one.at("row");
    CHECK(completion.row == request.prompts[answer.completions.size() - 1]);
    completion.ids = one.at("ids").get<std::vector<int32_t>>();
    completion.logprobs = one.at("logprobs").get<std::vector<float>>();
    completion.is_truncated = one.at("finish_reason") == "length";
    for (const std::string& name : names_) {
      const ordered_json& reward = one.at("rewards").at(name);
      completion.rewards.push_back(reward.is_null() ? std::numeric_limits<float>::quiet_NaN() : reward.get<float>());
    }
  }
  return answer;
}

PreferenceRun check_recorded_case(const fs::path& golden, const config::Config& config,
                                  const std::function<void(const train::RoundRecord&)>& on_round) {
  const ordered_json expected = ordered_json::parse(read_file(golden / "expected.json", 1 << 22));
  const ordered_json& rounds = expected.at("rounds");
  PreferenceRun run = run_preference(
      config, [&](train::TrainingSession&, int64_t) { return std::make_unique<RecordedRounds>(rounds); },
      [&](const train::RoundRecord& record) {
        check_advantages(rounds, record);
        if (on_round) on_round(record);
      });
  check_rounds(expected.at("steps"), run);
  const bool lora = config.adapter.has_value();
  const fs::path start = lora ? fs::path(config.adapter->model_dir) : fs::path(config.model.base_model);
  const char* const file = lora ? "adapter_model.safetensors" : "model.safetensors";
  CHECK(distance_of_weights(golden / "final.safetensors", start / file, run.output / file) <= kMostOffOfUpdate);
  return run;
}

}  // namespace spillway::testing
