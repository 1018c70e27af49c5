// What changes logits before a token is chosen from them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace spillway::infer {

struct Penalties {
  // transformers': the logits of tokens that the prompt or the answer has are divided by it where they are positive and
  // multiplied by it where they are negative, once each. 1: none.
  double repetition = 1;
  // OpenAI's, of the answer's tokens alone as vLLM has it: subtracted for each time that it has the token, and once.
  double frequency = 0, presence = 0;
  // OpenAI's: ids and what is added to their logits.
  std::vector<std::pair<int32_t, float>> logit_bias = {};

  [[nodiscard]] bool change_logits() const {
    return repetition != 1 || frequency != 0 || presence != 0 || !logit_bias.empty();
  }
};

// `ids` are the prompt's first `prompt_tokens`, and the answer's. REQUIRES: they, and those of the bias, have logits.
void penalise(std::span<float> logits, std::span<const int32_t> ids, int64_t prompt_tokens, const Penalties& penalties);

}  // namespace spillway::infer
