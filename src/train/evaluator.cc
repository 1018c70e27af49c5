#include "train/evaluator.h"

#include <memory>

#include "base/error.h"
#include "saved/evaluated_weights.h"

namespace spillway::train {

Observation observe(const Job& job, const TrainingSession& session, std::span<const data::MicroBatch> streams,
                    double loss, MetricSums& sums, size_t in_group) {
  const Observation seen{
      .loss = loss, .values = session.observed(in_group), .streams = streams, .rows = streams[0].rows};
  job.graph.objective->observe(seen, sums);
  const std::span<const std::string_view> keys = session.model_metrics();
  const size_t first = seen.values.size() - keys.size();
  for (size_t i = 0; i < keys.size(); ++i) sums.add(keys[i], seen.number(first + i));
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

bool Evaluator::add_rows(EvaluationFeed& rows, MetricSums& sums) {
  while (take_group(rows)) {
    if (ranks_.interrupted()) return false;
    ranks_.agree([&] {
      const std::span<const double> losses = session_.evaluate_group(group_.views());
      for (size_t i = 0; i < group_.size(); ++i)
        rows.observe(observe(job_, session_, group_[i], losses[i], sums, i), sums);
    });
  }
  return true;
}

// Takes the next micro-batches, as many as the plan computes together. Returns false if none is left.
bool Evaluator::take_group(EvaluationFeed& rows) {
  group_.begin(session_.planned().together(JobProgram::Kind::kEvaluation));
  while (!group_.is_full()) {
    const std::span<const data::MicroBatch> streams = rows.next();
    if (streams.empty()) break;
    group_.add(streams);
  }
  return group_.size() > 0;
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
