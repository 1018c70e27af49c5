// Reward functions, which score the completions of a round of online RL. For the list of them, and for calling a user's
// own, see docs/rewards.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rewards/reward_settings.h"

namespace spillway::rewards {

using Json = nlohmann::ordered_json;

// The state of the training as functions see it, with the names of transformers' TrainerState.
struct TrainerState {
  int64_t global_step = 0, max_steps = 0;
  double epoch = 0;
  double num_train_epochs = 0;
  int64_t num_input_tokens_seen = 0;
};

// The completions of a round, a prompt's together. All lists have one item per completion: a prompt that has several
// completions stands several times.
struct RewardInput {
  Json prompts = Json::array(), completions = Json::array();  // of texts, or of lists of messages
  std::vector<std::vector<int32_t>> completion_ids;
  std::vector<std::vector<int32_t>> prompt_ids;  // of the policy's tokenizer; perhaps none
  Json columns = Json::object();                 // the other columns of the rows: name -> list
  TrainerState state;

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(completion_ids.size()); }
};

// A function's output for them.
struct RewardOutput {
  std::vector<std::optional<double>> rewards;           // finite, also as f32; absent if it does not apply
  Json extra = Json::object();                          // columns that it logs: name -> list, one item per completion
  std::vector<std::pair<std::string, double>> metrics;  // numbers that it logs, by name
};

// One function. Not safe for use by two threads at once.
class RewardFunction {
 public:
  virtual ~RewardFunction() = default;

  // Throws InputError for an error of the function, MachineError if a signal ends its process, and Interrupted.
  [[nodiscard]] virtual RewardOutput evaluate(const RewardInput& input) = 0;
};

// Makes the function of a RewardEntry::Kind::kModel: the engine, which is no part of this folder.
using ModelRewardFactory = std::function<std::unique_ptr<RewardFunction>(const RewardEntry& entry)>;

// Returns the name of each entry in metrics: distinct, of the form NAME, NAME_2, NAME_3 if several share one.
[[nodiscard]] std::vector<std::string> names_of(std::span<const RewardEntry> entries);

// All functions of a config, with the processes that some of them run in. A process lives as long as this object, and
// no longer than the thread that made it: Linux ends it with that thread. So make it on the main thread, and before
// memory is filled.
class RewardFunctions {
 public:
  // Starts processes and asks Python for its functions. Throws InputError for a function, an interpreter, a program or
  // a package that is missing, and for a model without a factory.
  explicit RewardFunctions(const RewardSettings& settings, const ModelRewardFactory& make_model = {});
  ~RewardFunctions();
  RewardFunctions(RewardFunctions&&) = delete;

  // Returns the names in the order of the config.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  // Returns the output of each function, in the same order. Python's coroutines are awaited together; everything else
  // is called one after another. Throws as RewardFunction::evaluate, after which no call is possible.
  [[nodiscard]] std::vector<RewardOutput> evaluate(const RewardInput& input);

 private:
  class Python;

  std::vector<std::string> names_;
  std::vector<std::unique_ptr<RewardFunction>> functions_;  // null if `python_` has the function
  std::unique_ptr<Python> python_;
};

}  // namespace spillway::rewards
