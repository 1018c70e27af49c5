// Keys of reward functions.
#include <doctest/doctest.h>

#include <string>

#include "config/load.h"
#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using rewards::RewardEntry;

namespace {

rewards::RewardSettings settings_of(const std::string& text) {
  const LoadedConfig loaded = load_config(text, "c.yml", {}, ConfigUse::kRewards);
  REQUIRE(loaded.config.rewards);
  return *loaded.config.rewards;
}

std::string rewards_error(const std::string& text) {
  const std::string problem = first_problem(check_config(text, "c.yml", {}, ConfigUse::kRewards));
  CHECK(problem.find('\n') == std::string::npos);
  return problem;
}

}  // namespace

TEST_CASE("an entry of reward_funcs is one of TRL's functions, a Python function or a program") {
  const rewards::RewardSettings settings = settings_of(
      "trl:\n"
      "  reward_funcs:\n"
      "    - think_format_reward\n"
      "    - {name: get_soft_overlong_punishment, max_completion_len: 24, soft_punish_cache: 12}\n"
      "    - {name: reasoning_accuracy_reward, reasoning_delimiters: [</a>, </b>]}\n"
      "    - package.module.my_func\n"
      "    - {exec: [./score, --fast]}\n"
      "    - {exec: score}\n"
      "  reward_weights: [1, 0.5, 1, 1, -2, 1]\n"
      "  reward_timeout: 5\n"
      "  reward_python: /usr/bin/python3\n");
  REQUIRE(settings.functions.size() == 6);
  CHECK(settings.functions[0].kind == RewardEntry::Kind::kBuiltin);
  CHECK(settings.functions[0].name == "think_format_reward");
  CHECK(settings.functions[0].where == "c.yml:2: trl.reward_funcs.0");
  CHECK(settings.functions[1].arguments ==
        std::vector<rewards::RewardArgument>{{"max_completion_len", 24.0}, {"soft_punish_cache", 12.0}});
  CHECK(settings.functions[2].arguments ==
        std::vector<rewards::RewardArgument>{{"reasoning_delimiters", std::vector<std::string>{"</a>", "</b>"}}});
  CHECK(settings.functions[3].kind == RewardEntry::Kind::kPython);
  CHECK(settings.functions[3].name == "package.module.my_func");
  CHECK(settings.functions[4].kind == RewardEntry::Kind::kProgram);
  CHECK(settings.functions[4].command == std::vector<std::string>{"./score", "--fast"});
  CHECK(settings.functions[5].command == std::vector<std::string>{"score"});
  CHECK(settings.weights == std::vector<double>{1, 0.5, 1, 1, -2, 1});
  CHECK(settings.timeout_seconds == 5);
  CHECK(settings.python == "/usr/bin/python3");
}

TEST_CASE("the keys of rewards stand in trl: or at top level, and one function needs no list") {
  const rewards::RewardSettings settings = settings_of("reward_funcs: rewards.score\n");
  REQUIRE(settings.functions.size() == 1);
  CHECK(settings.functions[0].kind == RewardEntry::Kind::kPython);
  CHECK(settings.weights == std::vector<double>{1});
  CHECK(settings.timeout_seconds == 120);
  CHECK(settings.python == "python3");
  CHECK(settings_of("trl: {reward_funcs: [a.b]}\nreward_funcs: [a.b]\n").functions.size() == 1);
  CHECK(rewards_error("trl: {reward_timeout: 3, reward_funcs: [a.b]}\nreward_timeout: 4\n") ==
        "[c.yml:2: reward_timeout] expected one value for trl.reward_timeout and reward_timeout, which are the same "
        "key, got '3' and '4'; remove one");
}

TEST_CASE("functions can be tried with a config that cannot be trained") {
  const LoadedConfig loaded =
      load_config("base_model: ./m\nrl: grpo\ntrl: {reward_funcs: [a.b], num_generations: 4}\nlearning_rate: x\n",
                  "c.yml", {}, ConfigUse::kRewards);
  CHECK(loaded.config.tokenizer.folder == "./m");
  CHECK(loaded.config.rewards->functions.size() == 1);
}

TEST_CASE("nothing is scored where nothing generates completions") {
  const LoadedConfig loaded = testing::load("trl: {reward_funcs: [a.b], reward_weights: [1]}\n");
  CHECK_FALSE(loaded.config.rewards);
  CHECK(loaded.ignored == std::vector<std::string>{"trl.reward_funcs", "trl.reward_weights"});
}

TEST_CASE("entries and weights that cannot be meant are named") {
  const std::pair<const char*, const char*> kWrong[] = {
      {"reward_funcs: [acuracy_reward]", "got 'acuracy_reward'; did you mean accuracy_reward?"},
      {"reward_funcs: [a..b]", "module.function, ./FOLDER or {exec: program}, got 'a..b'; write one of these"},
      {"reward_funcs: [1a.b]", "got '1a.b'; write one of these"},
      {"reward_funcs: [a.b.]", "got 'a.b.'; write one of these"},
      {"reward_funcs: [[a.b]]", "expected a function's name, {name: ...} or {exec: ...}, got a list of 1; write one"},
      {"reward_funcs: [{nam: a.b}]",
       "expected a function's name, {name: ...} or {exec: ...}, got a mapping; write one"},
      {"reward_funcs: [{name: a.b, x: 1}]",
       "expected arguments of a function that TRL brings, got some of 'a.b'; remove x"},
      {"reward_funcs: [{name: {exec: a}}]", "got a mapping"},
      {"reward_funcs: [{exec: a, name: b}]", "expected exec alone, got other keys beside it; remove them"},
      {"reward_funcs: [{exec: []}]", "expected a program behind exec, got none;"},
      {"reward_funcs: [{name: get_cosine_scaled_reward}]",
       "expected max_len beside get_cosine_scaled_reward, got nothing;"},
      {"reward_funcs: [get_cosine_scaled_reward]", "expected max_len beside get_cosine_scaled_reward, got nothing;"},
      {"reward_funcs: [{name: get_soft_overlong_punishment, max_completion_len: x}]", "got 'x'"},
      {"reward_funcs: [judge]", "module.function, ./FOLDER or {exec: program}, got 'judge'"},
      {"reward_funcs: [{name: ./judge, x: 1}]", "expected arguments of a function that TRL brings"},
      {"reward_funcs: [a.b, c.d]\nreward_weights: [1]",
       "expected 2 weights, one for each reward function, got 1; add some"},
      {"reward_funcs: a.b\nreward_weights: [1, 2]",
       "expected 1 weights, one for each reward function, got 2; remove some"},
      {"reward_funcs: a.b\nreward_timeout: 0", "above 0"},
      {"reward_funcs: a.b\nreward_python: ''", "expected an interpreter, got nothing; write python3"},
      {"base_model: m", "expected reward functions, got none; name at least one"},
      {"reward_funcs: []", "expected reward functions, got none; name at least one"}};
  for (const auto& [text, message] : kWrong) {
    CAPTURE(std::string(text));
    const std::string error = rewards_error(text);
    CAPTURE(error);
    CHECK(error.find(message) != std::string::npos);
  }
}
