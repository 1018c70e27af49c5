// Computes the log-probabilities that a model gives to the tokens of texts. Runs without training, in its own memory,
// and never holds [tokens, vocabulary].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/device.h"
#include "base/parallel.h"
#include "data/batch.h"
#include "infer/inference_program.h"

namespace spillway::infer {

struct TokenScorerOptions {
  int64_t tokens = 0;         // the most of a batch
  int64_t max_sequences = 1;  // of a batch
  int64_t sequence_len = 0;   // of a usual sequence, for the predicted cost of attention; 0: `tokens`
  InferenceBudget budget = {};
};

// The scores of each token's label, in the order of the batch; 0 for tokens without a label.
struct TokenScores {
  std::vector<float> log_probs;
  std::vector<float> are_likeliest;  // 1 where no token is likelier
};

class TokenScorer {
 public:
  // Plans, and reads the weights. Borrows pool and device. Throws InputError if the budget is too small, MachineError
  // if the device has too little memory.
  TokenScorer(InferenceModel model, const TokenScorerOptions& options, ThreadPool& pool, Device& device = cpu_device());

  // Returns the number of batches that score() may take.
  [[nodiscard]] int64_t together() const { return program_.together(); }
  // Scores batches, at least one; the results are valid until the next call. REQUIRES: a batch has at most as many
  // tokens and sequences as the options say, and at least one token; its ids are in the vocabulary. Throws InputError
  // for scores that are no numbers.
  [[nodiscard]] std::span<const TokenScores> score(std::span<const data::MicroBatch> batches);
  [[nodiscard]] const TextModel& text() const { return *program_.model().text(); }

 private:
  InferenceProgram program_;
  std::vector<TokenScores> scores_;
};

}  // namespace spillway::infer
