// The choice of the next token from its logits.
#pragma once

#include <cstdint>
#include <span>

namespace spillway::train {

struct Sampling {
  int64_t max_new_tokens = 256;
  double temperature = 0;  // 0: the most likely token
  double top_p = 1;        // the fewest tokens whose probabilities reach this
  int64_t top_k = 0;       // the most likely ones; 0: all
  uint64_t seed = 0;
};

// What transformers' repetition penalty makes of the logits: those of the tokens in `seen` are divided by `penalty`
// where they are positive and multiplied by it where they are negative, once each.
void penalise_repetition(std::span<float> logits, std::span<const int32_t> seen, double penalty);

// Chooses a token: greedy, or by temperature, top-k and top-p in that order, as transformers does. `uniform` is a
// random number in [0, 1).
[[nodiscard]] int32_t sample(std::span<const float> logits, const Sampling& sampling, double uniform);

// Of a token under the model's own distribution.
[[nodiscard]] double log_probability(std::span<const float> logits, int32_t id);

}  // namespace spillway::train
