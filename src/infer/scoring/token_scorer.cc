#include "infer/scoring/token_scorer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "infer/logits_error.h"
#include "ops/linear_log_prob/linear_log_prob.h"

namespace spillway::infer {
namespace {

// The token that each position predicts.
const Column kLabels{"labels", fill_typical_ids};

void append_scores(Builder& builder, ModelGraph& model) {
  const ValueType type{DType::kI32, {builder.graph().tokens()}, kTokenAxis};
  const ValueId labels = add_column(builder, kLabels, type, model.columns);
  const ops::LogProb scores = ops::linear_log_prob(builder, model.hidden, model.head, labels, 1, model.logit_cap);
  builder.result(scores.log_prob);
  builder.result(scores.is_likeliest);
}

// A result has room for more tokens than a batch.
std::vector<float> score_numbers(const TensorView& view, int64_t tokens) {
  const auto* numbers = view.as<float>();
  return {numbers, numbers + tokens};
}

}  // namespace

TokenScorer::TokenScorer(InferenceModel model, const TokenScorerOptions& options, ThreadPool& pool, Device& device)
    : program_(std::move(model),
               {.tokens = options.tokens, .max_sequences = options.max_sequences, .sequence_len = options.sequence_len},
               options.budget, append_scores, pool, device) {}

std::span<const TokenScores> TokenScorer::score(std::span<const data::MicroBatch> batches) {
  program_.run(batches);
  scores_.clear();
  for (size_t i = 0; i < batches.size(); ++i) {
    const int64_t tokens = batches[i].tokens();
    scores_.push_back({.log_probs = score_numbers(program_.result(0, i), tokens),
                       .are_likeliest = score_numbers(program_.result(1, i), tokens)});
    const std::vector<float>& scores = scores_.back().log_probs;
    if (std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); }))
      throw logits_are_nan();
  }
  return scores_;
}

}  // namespace spillway::infer
