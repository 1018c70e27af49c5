// The micro-batches of a run, step by step, from rows in memory or from a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/batch.h"
#include "data/stream/batch_stream.h"
#include "job/epoch_size.h"
#include "job/training_data.h"
#include "objectives/objective.h"
#include "saved/feed_state.h"
#include "saved/training_length.h"

namespace spillway::train {

class StepFeed {
 public:
  virtual ~StepFeed() = default;
  // Goes to optimizer step `step`: any step in the first call, then each in turn. Throws InputError for rows of a
  // stream.
  virtual void begin(int64_t step) = 0;
  [[nodiscard]] virtual StepTotals totals() const = 0;
  // Prepares micro-batches [first, last) of the step, of which several ranks then fetch one each; they call it
  // together. The micro-batches of an update follow those of the previous one. Throws only in the step's first update.
  virtual void prepare(int64_t first, int64_t last) {
    (void)first;
    (void)last;
  }
  // Returns the streams of a micro-batch of the step, valid until the next call of this, of prepare() or of begin().
  // Throws only in the step's first update. REQUIRES: the last prepare() was for it.
  [[nodiscard]] virtual std::span<const data::MicroBatch> micro_batch(int64_t index) = 0;
  // Returns where the next step begins in a stream.
  [[nodiscard]] virtual std::optional<data::StreamPosition> position() const { return std::nullopt; }

  // Adds metrics of the micro-batches since the last call that a feed computed when it generated them.
  virtual void add_metrics(MetricSums& sums) { (void)sums; }
  // Receives the results of each micro-batch that was fetched and trained on, in the order of the fetches, of which
  // several may come first. Returns what add_observed() needs of it.
  [[nodiscard]] virtual std::vector<double> observe(const Observation& seen) {
    (void)seen;
    return {};
  }
  // Receives what observe() has returned for each micro-batch of a step, in their order, whatever rank had it.
  virtual void add_observed(std::span<const double> numbers) { (void)numbers; }
  // Returns how many tokens count as seen in a step that was trained on `trained` tokens; for metrics.
  [[nodiscard]] virtual int64_t seen_tokens(int64_t trained) { return trained; }
  // Returns the state that a checkpoint after this step needs.
  [[nodiscard]] virtual FeedState state() const { return {}; }
  // Evaluates the feed's own validation rows, for feeds that generate their data. The trainer evaluates all others.
  virtual void evaluate(MetricSums& sums) { (void)sums; }
};

// The micro-batches of an evaluation.
class EvaluationFeed {
 public:
  virtual ~EvaluationFeed() = default;
  // Returns the streams of the next micro-batch; empty at the end. Valid until the next call.
  [[nodiscard]] virtual std::span<const data::MicroBatch> next() = 0;
  // Adds metrics of micro-batch `number`, counted from 0, that the objective does not add itself. Called for those that
  // this rank computes.
  virtual void observe(int64_t number, const Observation& seen, MetricSums& sums) {
    (void)number;
    (void)seen;
    (void)sums;
  }
};

// Returns the number of steps of a run.
[[nodiscard]] int64_t total_steps(const config::ScheduleSettings& schedule, const EpochSize& epoch);
// Returns the length of a run. Counts as transformers does: the last step of an epoch has the micro-batches that are
// left.
[[nodiscard]] TrainingLength training_length(const config::ScheduleSettings& schedule,
                                             const data::BatchOptions& options, const TrainingData& data,
                                             const std::function<void(int64_t rows, int64_t of)>& packing = {});

// Fills the streams of a micro-batch with the rows of one or more lines.
class StreamFiller {
 public:
  // `tokens` is the capacity of the longest stream.
  StreamFiller(ObjectivePtr objective, int64_t tokens);
  // Fills the streams as Objective::fill() does, and adds the known scores of the reference. The result is valid until
  // the next call.
  [[nodiscard]] std::span<const data::MicroBatch> fill(const data::RowTable& rows, std::span<const data::Piece> pieces,
                                                       const ReferenceScores& known);

 private:
  ObjectivePtr objective_;
  std::vector<data::MicroBatch> streams_;
};

// Returns the feed of the training rows. Borrows the data. A stream starts at `from`; `tokens` is the capacity of the
// longest micro-batch. Calls `packing` as the rows of an epoch are packed.
[[nodiscard]] std::unique_ptr<StepFeed> make_step_feed(const data::BatchOptions& options, ObjectivePtr objective,
                                                       const TrainingData& data, const TrainingLength& length,
                                                       const std::optional<data::StreamPosition>& from, int64_t tokens,
                                                       std::function<void(int64_t rows, int64_t of)> packing);

}  // namespace spillway::train
