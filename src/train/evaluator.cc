#include "train/evaluator.h"

#include <memory>

#include "base/error.h"
#include "saved/evaluated_weights.h"
#include "train/contribution.h"
#include "train/rank_text.h"

namespace spillway::train {

Observation observe(const Job& job, const TrainingSession& session, std::span<const data::MicroBatch> streams,
                    double loss, MetricSums& sums, size_t in_group) {
  const Observation seen{
      .loss = loss, .values = session.observed(in_group), .streams = streams, .rows = streams[0].rows};
  job.graph.objective->observe(seen, sums);
  const std::span<const ModelMetric> own = session.model_metrics();
  const size_t first = seen.values.size() - own.size();
  for (size_t i = 0; i < own.size(); ++i) sums.add(own[i].key, seen.number(first + i));
  return seen;
}

bool Evaluator::evaluate(StepFeed& feed, MetricSums& sums) {
  sums.clear();
  if (ranks_.interrupted()) return false;
  const std::unique_ptr<EvaluationFeed> rows = data_.make_evaluation(session_);
  bool is_whole = true;
  with_evaluated_weights([&] { rows ? void(is_whole = add_rows(*rows, sums)) : feed.evaluate(sums); });
  return is_whole;
}

// The ranks take turns, and all of them add up the metrics in the order of the micro-batches.
bool Evaluator::add_rows(EvaluationFeed& rows, MetricSums& sums) {
  const auto add = [&](std::string_view text) {
    for (const auto& [mean, weight] : contribution_from(text, metric_keys_).metrics) sums.add(mean, weight);
  };
  for (int64_t first = 0, count = 0; (count = take_group(rows)) > 0; first += count) {
    if (ranks_.interrupted()) return false;
    ranks_.take_turns(
        count, job_.config.ranks.context, [&] { return metrics_of_group(rows, first, count); }, add);
  }
  return true;
}

// Computes the group that was taken, of `count` micro-batches of all ranks from `first` on, and returns the metrics of
// each of this rank's as a text; of one that does not count, none.
std::string Evaluator::metrics_of_group(EvaluationFeed& rows, int64_t first, int64_t count) {
  const std::span<const double> losses = session_.evaluate_group(group_.views());
  TextWriter text;
  int64_t number = first + ranks_.rank() / job_.config.ranks.context;
  for (size_t i = 0; i < group_.size() && number < first + count; ++i, number += dealt()) {
    Contribution mine;
    MetricSums own;
    own.record(&mine.metrics);
    rows.observe(number, observe(job_, session_, group_[i], losses[i], own, i), own);
    text.add_list(to_text(mine));
  }
  return text.take();
}

// Takes the next micro-batches, as many as all ranks compute together, and keeps those of this rank. Where sequences
// are shared, a rank without one keeps another, which does not count. Returns how many were taken.
int64_t Evaluator::take_group(EvaluationFeed& rows) {
  const int64_t most = session_.planned().together(JobProgram::Kind::kEvaluation);
  const int64_t own = ranks_.rank() / job_.config.ranks.context;
  const bool stands_in = job_.config.ranks.context > 1;
  group_.begin(most, ranks_.are_several());
  int64_t count = 0;
  for (; count < most * dealt(); ++count) {
    const std::span<const data::MicroBatch> streams = rows.next();
    if (streams.empty()) break;
    if (stands_in && count <= own) group_.begin(most, true);
    if (count % dealt() == own || (stands_in && count < own)) group_.add(streams);
  }
  return count;
}

void Evaluator::with_evaluated_weights(const std::function<void()>& body) {
  const auto put_back = [&] {
    put_trained_weights(session_.training(), session_.store());
    has_trained_weights_ = true;
  };
  has_trained_weights_ = false;
  put_evaluated_weights(session_.training(), session_.store());
  try {
    body();
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

void Evaluator::check_has_trained_weights(int64_t step) const {
  if (has_trained_weights_) return;
  throw machine_error(fmt::format("step {}", step),
                      "expected the weights in training back in their place behind an evaluation, got an error on the "
                      "way; go on from an earlier checkpoint");
}

}  // namespace spillway::train
