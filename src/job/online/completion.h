// The completions of a round of online reinforcement learning, with what is computed for them before training.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace spillway::train {

struct Completion {
  int64_t row = 0;                          // of the prompt, among the training rows
  std::vector<int32_t> ids;                 // with the token that ended it
  std::vector<float> logprobs;              // of each, as the sampler had them; perhaps none
  bool is_truncated = false;                // by its length: no token ended it
  std::vector<float> rewards;               // by function; NaN where one does not apply
  double advantage = 0;                     // of the whole completion
  double score = 0;                         // of Online DPO and PPO, in the place of that
  std::vector<float> old_logps, ref_logps;  // of each token, where the objective has passes that score them
  // For PPO; checkpoints do not keep them. The value model's estimate of each state and of the one after the last
  // token, and what is computed from these.
  std::vector<float> values, advantages, returns;

  // Returns true if GRPO and RLOO count it as cut. In TRL 1.16 one whose last token happens to be padding has ended,
  // too.
  [[nodiscard]] bool is_cut(std::optional<int32_t> padding) const {
    return is_truncated && (ids.empty() || ids.back() != padding);
  }
  [[nodiscard]] std::string_view finish_reason() const { return is_truncated ? "length" : "stop"; }
};

struct Round {
  int64_t number = 0;                   // from 0, over the whole run
  std::vector<Completion> completions;  // in the order of generation: those of a prompt follow each other
  // The indices of the completions in the order in which they are trained on: slice k of a round has the indices at [k
  // x micro_batch_size, (k + 1) x micro_batch_size).
  std::vector<int64_t> order;
};

}  // namespace spillway::train
