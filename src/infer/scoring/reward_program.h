// A reward model in a graph, beside training or alone, and its batches of tokenised texts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "infer/scoring/reward_model.h"

namespace spillway::infer {

// The capacity of a program that runs a reward model.
struct RewardRoom {
  int64_t tokens = 0;
  int64_t texts = 0;  // of at most so many tokens together
};

// Appends the score of each token as a result.
void append_token_scores(Builder& builder, const ModelGraph& model);

// A program that runs a reward model.
class RewardProgram {
 public:
  virtual ~RewardProgram() = default;
  // Prepares for texts of up to `longest` tokens, and returns the capacity; it may be smaller than that.
  [[nodiscard]] virtual RewardRoom prepare(int64_t longest, int64_t texts) = 0;
  // Returns the score of each token of each batch. REQUIRES: the texts of a batch fit the capacity that prepare()
  // returned.
  [[nodiscard]] virtual std::vector<std::vector<float>> run(std::span<const data::MicroBatch> batches) = 0;
};

// Returns the score of each text, in order: that of its last token that is not padding. The score does not depend on
// the other texts. A text without tokens, or that exceeds the capacity, has none.
[[nodiscard]] std::vector<std::optional<double>> score_texts(RewardProgram& program,
                                                             std::span<const std::vector<int32_t>> texts,
                                                             std::optional<int32_t> padding);

// Returns a reward function of a config. A completion whose text is longer than planned for has no reward; this is
// logged once. With `reads_ids` (RewardEntry::reads_ids) it reads the ids of prompt and completion if they are known,
// and scores the last one; otherwise it tokenises the text with the model's own tokenizer.
[[nodiscard]] std::unique_ptr<rewards::RewardFunction> model_reward(std::shared_ptr<const RewardModel> model,
                                                                    std::shared_ptr<RewardProgram> program,
                                                                    bool reads_ids);

}  // namespace spillway::infer
