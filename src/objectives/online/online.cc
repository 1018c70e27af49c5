#include "objectives/online/online.h"

#include <algorithm>

#include "base/error.h"
#include "base/sizes.h"
#include "objectives/online/grpo.h"
#include "objectives/online/online_dpo.h"
#include "objectives/online/ppo.h"
#include "objectives/online/rloo.h"
#include "ops/sequence_sum/sequence_sum.h"

namespace spillway::train {

void OnlineObjective::add_per_token(std::vector<float>& column, const TrainedCompletion& row,
                                    std::span<const float> numbers) {
  append_repeated(column, first_prediction(row.prompt), 0.0f);
  column.insert(column.end(), numbers.begin(), numbers.end());
  column.resize(column.size() + row.ids.size() - numbers.size() + 1, 0.0f);
}

std::vector<ScorePass> OnlineObjective::passes() const {
  std::vector<ScorePass> passes;
  const auto add = [&](std::string_view section, ScoredBy by, std::string_view score) {
    passes.push_back({.section = section, .by = by, .scores = {score}, .type = f32_per_token, .is_run_before = true});
  };
  if (has_old_logps_) add("old policy", ScoredBy::kPolicy, kOldLogps);
  if (has_reference()) add("reference", ScoredBy::kReference, kRefLogps);
  return passes;
}

std::vector<ValueId> OnlineObjective::append_scores(Builder& builder, const ScorePass&,
                                                    const ObjectiveInputs& inputs) const {
  return {tokens(builder, inputs).log_prob};
}

std::vector<LossColumn> OnlineObjective::shared_columns() const {
  return {labels_column(), row_column(kAdvantages), row_column(kCompletionTokens), token_column(kTokenMask)};
}

void OnlineObjective::fill(data::MicroBatch& stream, std::span<const TrainedCompletion> rows,
                           const RoundTotals* round) const {
  stream.clear();
  const auto number = [&](std::string_view column, double value) {
    stream.column(column).push_back(static_cast<float>(value));
  };
  for (const TrainedCompletion& row : rows) {
    SPILLWAY_CHECK(!row.prompt.empty(), "a completion without a prompt");
    add_sequence(stream, row.prompt, row.ids);
    if (row.is_masked) {
      std::fill(stream.labels.end() - std::ssize(row.prompt) - std::ssize(row.ids), stream.labels.end(),
                data::kIgnoredLabel);
      stream.targets -= std::ssize(row.ids);
    }
    number(kAdvantages, row.advantage);
    number(kCompletionTokens, static_cast<double>(row.tokens()));
    const auto ones = make_vector<float>(row.tokens(), 1.0f);
    add_per_token(stream.column(kTokenMask), row, ones);
    if (round != nullptr && has_old_logps()) add_per_token(stream.column(kOldLogps), row, row.old_logps);
    if (round != nullptr && has_reference()) add_per_token(stream.column(kRefLogps), row, row.ref_logps);
    ++stream.rows;
  }
}

ActingEntropy OnlineObjective::acting_entropy(const Observation&) const { return {}; }

ops::LogProb OnlineObjective::tokens(Builder& builder, const ObjectiveInputs& inputs) const {
  return ops::linear_log_prob(builder, inputs.model().hidden, inputs.model().head, inputs.column("labels"),
                              temperature(), inputs.model().logit_cap);
}

ValueId OnlineObjective::sum(Builder& builder, const ObjectiveInputs& inputs, ValueId per_token, ValueId weights) {
  return ops::sequence_sum(builder, per_token, weights, inputs.sequence_offsets(), {.axis = kRowAxis});
}

ValueId OnlineObjective::spread(Builder& builder, const ObjectiveInputs& inputs, ValueId per_row) {
  return ops::sequence_spread(builder, per_row, kNone, inputs.sequence_offsets(), {.axis = kRowAxis});
}

std::shared_ptr<const OnlineObjective> online_objective(const config::OnlineSettings& settings, int64_t accumulation) {
  // No update comes between the generation of a round and its training, as TRL decides it.
  const bool is_on_policy = accumulation % (settings.steps_per_generation * settings.num_iterations) == 0;
  if (settings.kind == config::OnlineKind::kRloo) return rloo_objective(settings);
  if (settings.kind == config::OnlineKind::kOnlineDpo) return online_dpo_objective(settings);
  if (settings.kind == config::OnlineKind::kPpo) return ppo_objective(settings, accumulation);
  return grpo_objective(settings, !is_on_policy, accumulation);
}

}  // namespace spillway::train
