// A reward model in a graph, beside training or alone, and texts of tokens as its batches.
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

// What a run has room for.
struct RewardRoom {
  int64_t tokens = 0;
  int64_t texts = 0;  // of at most so many tokens together
};

// Appends the score of each token, as a result.
void append_token_scores(Builder& builder, const ModelGraph& model);

// What runs a reward model.
class RewardProgram {
 public:
  virtual ~RewardProgram() = default;
  // Where the longest text has so many tokens. It may have room for less than that.
  [[nodiscard]] virtual RewardRoom prepare(int64_t longest, int64_t texts) = 0;
  // The score of each token, until the next call. REQUIRES: there is room for it since prepare().
  [[nodiscard]] virtual std::span<const float> run(const data::MicroBatch& texts) = 0;
};

// The score of each text at its last token that is not padding, in order, whatever stands beside it; none for one
// without tokens, and for one that the program has no room for.
[[nodiscard]] std::vector<std::optional<double>> score_texts(RewardProgram& program,
                                                             std::span<const std::vector<int32_t>> texts,
                                                             std::optional<int32_t> padding);

// A reward function of a config. Completions whose text is longer than planned for have no reward, which is said once.
// One that reads ids (RewardEntry::reads_ids) gets those of prompt and completion where they are known, and scores
// their last; else, as any other, the text in tokens of its own.
[[nodiscard]] std::unique_ptr<rewards::RewardFunction> model_reward(std::shared_ptr<const RewardModel> model,
                                                                    std::shared_ptr<RewardProgram> program,
                                                                    bool reads_ids);

}  // namespace spillway::infer
