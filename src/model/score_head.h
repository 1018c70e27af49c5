// A head that scores instead of predicting tokens.
#pragma once

#include <cstdint>

namespace spillway {

struct ScoreHead {
  int64_t labels = 1;  // numbers in a score
  bool is_of_tokens =
      false;  // each token has one (transformers' ForTokenClassification), else a text at its last token
  bool has_bias = false;

  bool operator==(const ScoreHead&) const = default;
};

// Scores each step of a text as right or wrong at the step's last token.
constexpr ScoreHead kStepScores{.labels = 2, .is_of_tokens = true, .has_bias = true};

}  // namespace spillway
