#include "rewards/builtin.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::rewards;

namespace {

RewardEntry entry_of(const Json& json) {
  RewardEntry entry{.where = "trl.reward_funcs.0"};
  for (const auto& [name, value] : json.items()) {
    if (name == "name") {
      entry.name = value;
    } else if (value.is_array()) {
      entry.arguments.push_back({name, value.get<std::vector<std::string>>()});
    } else {
      entry.arguments.push_back({name, value.get<double>()});
    }
  }
  return entry;
}

RewardInput input_of(const Json& golden) {
  RewardInput input;
  const size_t count = golden["rewards"].size();
  input.completions = golden.value("completions", Json(std::vector<std::string>(count)));
  input.completion_ids = golden.value("completion_ids", std::vector<std::vector<int32_t>>(count));
  input.prompts = Json(std::vector<std::string>(count));
  return input;
}

std::string error_of(const Json& entry) {
  try {
    check_arguments(entry_of(entry));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what is computed here says what TRL's functions say") {
  std::ifstream file(testing::source_folder() / "tests/golden/rewards/functions.json");
  int seen = 0;
  for (const Json& golden : Json::parse(file)) {
    const RewardEntry entry = entry_of(golden["entry"]);
    check_arguments(entry);
    if (find_builtin(entry.name)->in_python) continue;
    ++seen;
    CAPTURE(golden["entry"].dump());
    const RewardOutput output = make_builtin(entry)->evaluate(input_of(golden));
    REQUIRE(output.rewards.size() == golden["rewards"].size());
    for (size_t i = 0; i < output.rewards.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(*output.rewards[i] - golden["rewards"][i].get<double>()) < 1e-12);
    }
  }
  CHECK(seen == 6);
}

TEST_CASE("a completion of messages counts as its text") {
  RewardInput input;
  input.completions = Json::parse(R"([[{"role": "assistant", "content": "<think>a</think>b"}], "<think>"])");
  input.completion_ids.resize(2);
  const auto function = make_builtin({.name = "think_format_reward"});
  CHECK(function->evaluate(input).rewards == std::vector<std::optional<double>>{1.0, 0.0});
  input.completions[0][0]["content"] = nullptr;
  CHECK_THROWS_AS((void)function->evaluate(input), InputError);
}

TEST_CASE("arguments without a value are TRL's") {
  const RewardEntry punishment{.name = "get_soft_overlong_punishment"};
  CHECK(number_argument(punishment, "max_completion_len") == 1280);
  CHECK(number_argument(punishment, "soft_punish_cache") == 256);
  const RewardEntry penalty{.name = "get_repetition_penalty_reward"};
  CHECK(number_argument(penalty, "ngram_size") == 3);
  CHECK(number_argument(penalty, "max_penalty") == -1);
}

TEST_CASE("arguments that a function does not have or cannot take are named") {
  const std::pair<const char*, const char*> kWrong[] = {
      {R"({"name": "think_format_reward", "max_len": 3})", "expected think_format_reward without arguments, got"},
      {R"({"name": "get_soft_overlong_punishment", "max_len": 3})",
       "expected an argument of get_soft_overlong_punishment (max_completion_len or soft_punish_cache), got 'max_len'"},
      {R"({"name": "get_soft_overlong_punishment", "max_completion_len": 1.5})",
       "expected an integer from 0 to 1000000000 for max_completion_len, got 1.5"},
      {R"({"name": "get_repetition_penalty_reward", "max_penalty": 0.5})",
       "expected a number from -1000000000 to 0 for max_penalty, got 0.5"},
      {R"({"name": "get_repetition_penalty_reward", "ngram_size": 0})", "expected an integer from 1"},
      {R"({"name": "reasoning_accuracy_reward", "reasoning_delimiters": 1})", "expected a list of texts"},
      {R"({"name": "get_cosine_scaled_reward", "max_len": ["a"]})", "expected an integer for max_len, got text"},
      {R"({"name": "get_cosine_scaled_reward"})", "expected max_len beside get_cosine_scaled_reward, got nothing"}};
  for (const auto& [entry, message] : kWrong) {
    CAPTURE(std::string(entry));
    const std::string error = error_of(Json::parse(entry));
    CAPTURE(error);
    CHECK(error.find(message) != std::string::npos);
  }
}

TEST_CASE("names that entries share are numbered") {
  using Kind = RewardEntry::Kind;
  const std::vector<RewardEntry> entries = {
      {.kind = Kind::kPython, .name = "rewards.score"}, {.kind = Kind::kPython, .name = "other.deep.score"},
      {.name = "get_soft_overlong_punishment"},         {.kind = Kind::kProgram, .command = {"/usr/bin/score", "-x"}},
      {.kind = Kind::kModel, .name = "models/judge/"},  {.kind = Kind::kPython, .name = "a.score_2"},
  };
  CHECK(names_of(entries) == std::vector<std::string>{"score", "score_2", "soft_overlong_punishment_reward", "score_3",
                                                      "judge", "score_2_2"});
}
