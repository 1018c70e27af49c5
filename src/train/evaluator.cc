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
  for (auto streams = rows.next(); !streams.empty(); streams = rows.next()) {
    if (ranks_.interrupted()) return false;
    ranks_.agree([&] {
      const double loss = session_.evaluate(BatchStreams(streams).list());
      rows.observe(observe(job_, session_, streams, loss, sums), sums);
    });
  }
  return true;
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
