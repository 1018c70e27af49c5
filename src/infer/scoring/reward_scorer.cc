#include "infer/scoring/reward_scorer.h"

#include <algorithm>
#include <utility>

#include "base/sizes.h"
#include "model/weights.h"

namespace spillway::infer {
namespace {

// Enough for efficient matrix products.
constexpr int64_t kTokens = 2048;

}  // namespace

RewardScorer::RewardScorer(std::shared_ptr<const RewardModel> model, ThreadPool& pool, Device& device)
    : model_(std::move(model)), pool_(pool), device_(device) {
  (void)open();
}

InferenceModel RewardScorer::open() const {
  const ModelPtr& model = model_->model();
  return {.model = model,
          .options = model_->options(),
          .base = open_model_weights(model_->folder(), parameters_of(*model, model_->options())),
          .factors = {}};
}

RewardRoom RewardScorer::prepare(int64_t longest, int64_t texts) {
  if (program_ && longest <= room_.tokens && texts <= room_.texts) return room_;
  program_.reset();
  room_ = {.tokens = std::max(longest, kTokens), .texts = texts};
  program_.emplace(
      open(), ModelOptions{.tokens = room_.tokens, .max_sequences = room_.texts, .sequence_len = longest},
      InferenceBudget{}, [](Builder& builder, ModelGraph& built) { append_token_scores(builder, built); }, pool_,
      device_);
  return room_;
}

std::vector<std::vector<float>> RewardScorer::run(std::span<const data::MicroBatch> batches) {
  std::vector<std::vector<float>> scores;
  for (const data::MicroBatch& texts : batches) {
    program_->run(texts);
    const std::span<const float> of_tokens = span_of(program_->result(0).as<float>(), texts.tokens());
    scores.emplace_back(of_tokens.begin(), of_tokens.end());
  }
  return scores;
}

}  // namespace spillway::infer
