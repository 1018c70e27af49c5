// A source of the completions of rounds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "job/online/completion.h"

namespace spillway::train {

struct RoundRequest {
  int64_t number = 0;                // of the round, over the whole run
  std::span<const int64_t> prompts;  // the row of each completion, those of a prompt one after the other
  int64_t step = 0;                  // the optimizer step that is next
  double epoch = 0;
  int64_t seen_tokens = 0;     // of the rounds before, prompts included
  bool is_validation = false;  // rows are those of the validation
};

struct RoundAnswer {
  std::vector<Completion> completions;  // with rewards; as many as prompts
  std::vector<int64_t> order;           // in which they are trained on; empty: the schedule's
  // Values that reward functions log in addition to the rewards.
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();  // column -> list, one item a completion
  std::vector<std::pair<std::string, double>> metrics;
  double generation_seconds = 0, reward_seconds = 0;
  int64_t generated_tokens = 0;  // those of all sequences
};

class RoundSource {
 public:
  virtual ~RoundSource() = default;
  // The names of the reward functions, in the order of Completion::rewards.
  [[nodiscard]] virtual const std::vector<std::string>& reward_names() const = 0;
  // Makes a round. Throws InputError, MachineError and Interrupted.
  [[nodiscard]] virtual RoundAnswer make(const RoundRequest& request) = 0;
};

}  // namespace spillway::train
