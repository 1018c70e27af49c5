// Support for tests of reward functions outside of this process: entries, completions, and errors.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rewards/rewards.h"
#include "tests/support/captured.h"

namespace spillway::rewards::testing {

inline RewardEntry python(const std::string& name) {
  return {.kind = RewardEntry::Kind::kPython, .name = name, .where = "c.yml:1: trl.reward_funcs.0"};
}
inline RewardEntry shell(const std::string& script) {
  return {.kind = RewardEntry::Kind::kProgram, .command = {"sh", "-c", script}, .where = "c.yml:1: trl.reward_funcs.0"};
}

inline RewardInput two_completions() {
  RewardInput input;
  input.prompts = {"1 + 1?", "2 + 2?"};
  input.completions = {"2", "five"};
  input.completion_ids = {{7}, {8, 9}};
  input.columns = {{"answer", {2, 4}}};
  input.state = {.global_step = 3, .max_steps = 100, .epoch = 0.5, .num_train_epochs = 1, .num_input_tokens_seen = 77};
  return input;
}

inline std::vector<RewardOutput> evaluate(const std::vector<RewardEntry>& entries, const RewardInput& input,
                                          double timeout = 60) {
  RewardFunctions functions({.functions = entries, .weights = {}, .timeout_seconds = timeout});
  return functions.evaluate(input);
}

struct Failure {
  std::string message, shown;
  bool is_input_error = false;
};

template <typename Body>
Failure failure_of(const Body& body) {
  Failure failure;
  failure.shown = capture([&] {
                    try {
                      body();
                    } catch (const InputError& error) {
                      failure.message = error.what();
                      failure.is_input_error = true;
                    } catch (const MachineError& error) {
                      failure.message = error.what();
                    }
                    return 0;
                  }).err;
  CHECK(failure.message.find('\n') == std::string::npos);
  return failure;
}

inline Failure failure_of_entry(const RewardEntry& entry, double timeout = 60) {
  return failure_of([&] { (void)evaluate({entry}, two_completions(), timeout); });
}

inline bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Returns true if the process exists and is not a zombie.
inline bool is_running(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  return std::getline(file, text) && text.substr(text.rfind(')') + 2, 1) != "Z";
}

using Rewards = std::vector<std::optional<double>>;

}  // namespace spillway::rewards::testing
