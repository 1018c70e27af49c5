// Changes to the logits before a token is chosen from them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/model.h"

namespace spillway::infer {

// The bounds of what users may ask for: those of repetition, and of frequency and presence on either side of 0.
constexpr double kMinRepetitionPenalty = 0.01, kMaxRepetitionPenalty = 100, kMaxAnswerPenalty = 2;

struct Penalties {
  // transformers' repetition_penalty: divides the positive logits and multiplies the negative logits of tokens that
  // occur in the prompt or the answer, once each. 1: none.
  double repetition = 1;
  // OpenAI's penalties, over the tokens of the answer as in vLLM: `frequency` is subtracted for each occurrence,
  // `presence` once.
  double frequency = 0, presence = 0;
  // OpenAI's logit_bias: ids, and the numbers that are added to their logits.
  std::vector<std::pair<int32_t, float>> logit_bias = {};

  [[nodiscard]] bool change_logits() const {
    return repetition != 1 || frequency != 0 || presence != 0 || !logit_bias.empty();
  }
};

// Returns the penalties that a model asks for by its generation_config.json.
[[nodiscard]] Penalties penalties_of(const TextModel& model);

// Applies the penalties. `ids` are the prompt's first `prompt_tokens` tokens followed by the answer's. REQUIRES: these
// and the ids of the bias have logits.
void penalise(std::span<float> logits, std::span<const int32_t> ids, int64_t prompt_tokens, const Penalties& penalties);

}  // namespace spillway::infer
