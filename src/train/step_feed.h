// The micro-batches of a run, step after step: out of rows that are all there, or out of a stream.
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
  // Goes on to optimizer step `step`: the first call to any, then to each in turn. Throws InputError for rows of a
  // stream.
  virtual void begin(int64_t step) = 0;
  [[nodiscard]] virtual StepTotals totals() const = 0;
  // The streams of a micro-batch of the step, those of an update after those of the one before. Throws only in the
  // step's first update. Valid until the next call of begin() or of this.
  [[nodiscard]] virtual std::span<const data::MicroBatch> micro_batch(int64_t index) = 0;
  // Where the step after this one begins, of a stream.
  [[nodiscard]] virtual std::optional<data::StreamPosition> position() const { return std::nullopt; }

  // Of feeds that make what they feed. What the micro-batches since the last call told beside what is trained.
  virtual void add_metrics(MetricSums& sums) { (void)sums; }
  // What a micro-batch showed when it was trained on.
  virtual void observe(const Observation& seen) { (void)seen; }
  // How many tokens a step that was trained on so many has seen; for metrics.
  [[nodiscard]] virtual int64_t seen_tokens(int64_t trained) { return trained; }
  // What a checkpoint after this step needs to go on.
  [[nodiscard]] virtual FeedState state() const { return {}; }
  // Evaluates by what the weights make of rows that are kept for it; of other feeds the trainer does.
  virtual void evaluate(MetricSums& sums) { (void)sums; }
};

// The micro-batches of an evaluation.
class EvaluationFeed {
 public:
  virtual ~EvaluationFeed() = default;
  // The streams of the next; empty at the end. Valid until the next call.
  [[nodiscard]] virtual std::span<const data::MicroBatch> next() = 0;
  // What the last showed, beside what the objective takes of it.
  virtual void observe(const Observation& seen, MetricSums& sums) {
    (void)seen;
    (void)sums;
  }
};

// Of a run whose epochs have so many.
[[nodiscard]] int64_t total_steps(const config::ScheduleSettings& schedule, int64_t steps_per_epoch);
// As transformers counts: an epoch ends with a step of however many micro-batches are left.
[[nodiscard]] TrainingLength training_length(const config::ScheduleSettings& schedule,
                                             const data::BatchOptions& options, const TrainingData& data,
                                             const std::function<void(int64_t rows, int64_t of)>& packing = {});

// Streams of the rows of one or more lines.
class StreamFiller {
 public:
  // `tokens` is what the longest stream may hold.
  StreamFiller(ObjectivePtr objective, int64_t tokens);
  // As Objective::fill, with the scores of the reference that are known. Valid until the next call.
  [[nodiscard]] std::span<const data::MicroBatch> fill(const data::RowTable& rows, std::span<const data::Piece> pieces,
                                                       const KnownScores& known);

 private:
  ObjectivePtr objective_;
  std::vector<data::MicroBatch> streams_;
};

// For the training rows; borrows the data. `from` is where a stream begins, and `tokens` what the longest
// micro-batch may hold. `packing` is told as an epoch's rows are packed.
[[nodiscard]] std::unique_ptr<StepFeed> make_step_feed(const data::BatchOptions& options, ObjectivePtr objective,
                                                       const TrainingData& data, const TrainingLength& length,
                                                       const std::optional<data::StreamPosition>& from, int64_t tokens,
                                                       std::function<void(int64_t rows, int64_t of)> packing);

}  // namespace spillway::train
