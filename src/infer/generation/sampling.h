// Chooses the next token from its logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace spillway::infer {

struct Sampling {
  int64_t max_new_tokens = 256;
  int64_t min_new_tokens = 0;  // before that no token stops the answer
  double temperature = 0;      // 0: the most likely token
  double top_p = 1;            // the fewest tokens whose probabilities reach this
  int64_t top_k = 0;           // the most likely ones; 0: all
  double min_p = 0;            // those at least this share as likely as the most likely one
  uint64_t seed = 0;

  // Returns true if a token is drawn from all tokens by their probabilities.
  [[nodiscard]] bool draws_from_all() const { return temperature > 0 && top_k <= 0 && top_p >= 1 && min_p <= 0; }
  // Returns true if the decoding program chooses the token (ops::draw_token), provided that nothing changes the logits.
  [[nodiscard]] bool is_of_program() const { return temperature == 0 || draws_from_all(); }
};

// Returns the inverse as ops::draw_token takes it: infinity for 0.
[[nodiscard]] float inverse_temperature(double temperature);

// Chooses a token: greedy, or by temperature, top-k, top-p and min-p in that order, as transformers does. `uniform` is
// a random number in [0, 1).
[[nodiscard]] int32_t sample(std::span<const float> logits, const Sampling& sampling, double uniform);

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
};
struct Choice {
  int32_t id = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top = {};  // of the likeliest tokens, if wanted
};
// Chooses a token as sample() does from `scores`, which are the logits with penalties applied. With
// `logprob_temperature`, also computes the log of the token's probability under softmax(logits / *logprob_temperature).
[[nodiscard]] Choice choose_token(std::span<const float> logits, std::span<const float> scores,
                                  const Sampling& sampling, std::optional<double> logprob_temperature, double uniform);

// Return log-probabilities under softmax(logits / temperature): of `id`, and of the `count` likeliest tokens, likeliest
// first.
[[nodiscard]] float log_probability(std::span<const float> logits, double temperature, int32_t id);
[[nodiscard]] std::vector<TokenLogprob> likeliest_tokens(std::span<const float> logits, double temperature,
                                                         int64_t count);

}  // namespace spillway::infer
