// Online reinforcement learning trains as TRL's trainers do: given the completions that a run of theirs generated, the
// same advantages, loss, metrics and gradient norm at each step, and the weights after them. The numbers are TRL's own:
// tools/make_online_rl_goldens.py.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "tests/support/golden_weights.h"
#include "tests/support/preference_run.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

constexpr double kMostOff = 1e-3, kMostOffOfNorm = 1e-2;

// The rounds of a run of TRL's.
class RecordedRounds final : public train::RoundSource {
 public:
  explicit RecordedRounds(ordered_json rounds) : rounds_(std::move(rounds)) {
    for (const auto& [name, reward] : rounds_.at(0).at("completions").at(0).at("rewards").items())
      names_.push_back(name);
  }

  [[nodiscard]] const std::vector<std::string>& reward_names() const override { return names_; }
  [[nodiscard]] train::RoundAnswer make(const train::RoundRequest& request) override {
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

 private:
  ordered_json rounds_;
  std::vector<std::string> names_;
};

// Of Online DPO scores.
void check_advantages(const ordered_json& rounds, const train::RoundRecord& record) {
  const ordered_json& expected = rounds.at(static_cast<size_t>(record.round->number)).at("completions");
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(record.round->completions[i].advantage ==
          doctest::Approx(expected[i].at(expected[i].contains("score") ? "score" : "advantage").get<double>())
              .epsilon(1e-3));
  }
}

// All but where a line is.
bool is_comparable(const std::string& key) {
  return key != "step" && key != "learning_rate" && key != "epoch" && key != "step_time";
}

void check_steps(const ordered_json& expected, const PreferenceRun& run) {
  REQUIRE(run.steps.size() == expected.size());
  for (size_t step = 0; step < run.steps.size(); ++step) {
    CAPTURE(step);
    for (const auto& [key, value] : expected[step].items()) {
      if (!is_comparable(key) || value.is_null()) continue;
      CAPTURE(key);
      const auto found = run.steps[step].find(key);
      REQUIRE(found != run.steps[step].end());
      const double trl = value.get<double>(), least = key == "loss" || key == "policy_loss" ? 0.1 : 1;
      const double most = key == "grad_norm" ? kMostOffOfNorm : kMostOff;
      CAPTURE(trl);
      CAPTURE(found->second);
      CHECK(std::abs(found->second - trl) <= most * std::max(least, std::abs(trl)));
    }
  }
}

void check_case(const fs::path& golden) {
  const TemporaryFolder folder;
  const config::Config config = golden_config(golden, folder.path() / "out");
  const ordered_json expected = ordered_json::parse(read_file(golden / "expected.json", 1 << 22));
  const PreferenceRun run = run_preference(
      config, [&](train::TrainingSession&, int64_t) { return std::make_unique<RecordedRounds>(expected.at("rounds")); },
      [&](const train::RoundRecord& record) { check_advantages(expected.at("rounds"), record); });
  check_steps(expected.at("steps"), run);
  const bool lora = config.adapter.has_value();
  const fs::path start = lora ? fs::path(config.adapter->model_dir) : fs::path(config.model.base_model);
  const char* const file = lora ? "adapter_model.safetensors" : "model.safetensors";
  CHECK(distance_of_weights(golden / "final.safetensors", start / file, run.output / file) <= kMostOffOfUpdate);
}

}  // namespace

TEST_CASE("online reinforcement learning trains as TRL's trainers do") {
  const fs::path goldens = source_folder() / "tests/golden/online_rl";
  int64_t checked = 0;
  for (const std::string& name : golden_cases(goldens)) {
    CAPTURE(name);
    check_case(goldens / "cases" / name);
    ++checked;
  }
  CHECK(checked == 69);
}
