// Evaluations between the steps of a run, with weights that may be others than those in training.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "train/run_data.h"
#include "train/session.h"

namespace spillway::train {

// What the micro-batch that ran last showed, added to `sums`.
Observation observe(const Job& job, const TrainingSession& session, std::span<const data::MicroBatch> streams,
                    double loss, MetricSums& sums);

class Evaluator {
 public:
  // All is borrowed.
  Evaluator(const Job& job, TrainingSession& session, const RunData& data)
      : job_(job), session_(session), data_(data) {}

  // Sums what the rows that are kept for it show, or what `feed` makes of them. False where a signal asks the run to
  // stop: the sums say nothing then. REQUIRES: the data have an evaluation.
  [[nodiscard]] bool evaluate(StepFeed& feed, MetricSums& sums);
  // Whatever happens in `body`, training goes on with its own weights.
  void with_evaluated_weights(const std::function<void()>& body);
  // Throws MachineError where these could not be put back: nothing may be saved.
  void check_has_trained_weights(int64_t step) const;

 private:
  bool add_rows(EvaluationFeed& rows, MetricSums& sums);

  const Job& job_;
  TrainingSession& session_;
  const RunData& data_;
  bool has_trained_weights_ = true;  // false while others are evaluated
};

}  // namespace spillway::train
