// Evaluations between the steps of a run, possibly with other weights than those in training.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>

#include "train/held_group.h"
#include "train/ranks.h"
#include "train/run_data.h"
#include "train/session.h"

namespace spillway::train {

// Adds the metrics of the last micro-batch, of a group that with this number, to `sums`, and returns what was observed.
Observation observe(const Job& job, const TrainingSession& session, std::span<const data::MicroBatch> streams,
                    double loss, MetricSums& sums, size_t in_group = 0);

class Evaluator {
 public:
  // Borrows its arguments.
  Evaluator(const Job& job, TrainingSession& session, const RunData& data, Ranks& ranks)
      : job_(job), session_(session), data_(data), ranks_(ranks) {}

  // Adds the metrics of the validation rows, or those that `feed` computes itself, to `sums`. Returns false if a signal
  // asks the run to stop; `sums` is incomplete then. REQUIRES: the data have an evaluation.
  [[nodiscard]] bool evaluate(StepFeed& feed, MetricSums& sums);
  // Runs `body` with the evaluated weights in place, and restores the trained weights afterwards, also if `body`
  // throws.
  void with_evaluated_weights(const std::function<void()>& body);
  // Throws MachineError if the trained weights could not be restored, so that nothing is saved.
  void check_has_trained_weights(int64_t step) const;

 private:
  bool add_rows(EvaluationFeed& rows, MetricSums& sums);
  [[nodiscard]] int64_t take_group(EvaluationFeed& rows);
  [[nodiscard]] std::string metrics_of_group(EvaluationFeed& rows, int64_t first, int64_t count);
  [[nodiscard]] int64_t dealt() const { return ranks_.groups_of(job_.config.ranks.context); }

  const Job& job_;
  TrainingSession& session_;
  const RunData& data_;
  Ranks& ranks_;
  HeldGroup group_;  // that is evaluated
  std::set<std::string, std::less<>> metric_keys_;
  bool has_trained_weights_ = true;  // false while others are evaluated
};

}  // namespace spillway::train
