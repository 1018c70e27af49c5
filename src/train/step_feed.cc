#include "train/step_feed.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/index.h"
#include "base/sizes.h"

namespace spillway::train {
namespace {

using PackingProgress = std::function<void(int64_t rows, int64_t of)>;

// Feeds rows in memory, packed and shuffled for each epoch.
class EpochFeed : public StepFeed {
 public:
  EpochFeed(const data::BatchOptions& options, ObjectivePtr objective, const TrainingData& data, const EpochSize& size,
            int64_t tokens, PackingProgress packing)
      : rows_(data.training),
        scores_(data.training_scores),
        filler_(std::move(objective), tokens),
        options_(options),
        size_(size),
        packing_(std::move(packing)) {}

  void begin(int64_t step) override {
    const EpochSize::Place at = size_.place(step);
    if (at.epoch != epoch_) {
      epoch_ = at.epoch;
      plan_ = at.is_in_rest ? rest_of(*size_.change) : plan_epoch(rows_, options_, at.epoch, packing_);
    }
    first_ = std::min(at.batch, plan_.micro_batches());
    last_ = std::min(first_ + size_.step_batches, plan_.micro_batches());
  }
  [[nodiscard]] StepTotals totals() const override {
    StepTotals totals{.micro_batches = last_ - first_};
    if (!rows_.has_labels()) return totals;
    for (int64_t i = first_; i < last_; ++i) totals.targets += data::count_targets(rows_, plan_.micro_batch(i));
    return totals;
  }
  [[nodiscard]] std::span<const data::MicroBatch> micro_batch(int64_t index) override {
    return filler_.fill(rows_, plan_.micro_batch(first_ + index), scores_);
  }

 private:
  [[nodiscard]] data::EpochPlan rest_of(const BatchChange& change) const {
    const data::EpochRest rest{change.line, change.order_lines, change.order_batches};
    return plan_rest(rows_, options_, change.epoch, rest, packing_);
  }

  const data::RowTable& rows_;
  const ReferenceScores& scores_;
  StreamFiller filler_;
  data::BatchOptions options_;
  EpochSize size_;
  PackingProgress packing_;
  int64_t epoch_ = -1, first_ = 0, last_ = 0;
  data::EpochPlan plan_;  // of the epoch
};

class StreamFeed : public StepFeed {
 public:
  StreamFeed(const data::BatchOptions& options, std::shared_ptr<const data::StreamSource> source,
             const data::StreamPosition& from)
      : batches_(make_vector<data::MicroBatch>(options.step_batches)),
        stream_(std::move(source), from, options.step_batches + 1) {}

  void begin(int64_t /*step*/) override {
    for (data::MicroBatch& batch : batches_) batch = stream_.next();
  }
  [[nodiscard]] StepTotals totals() const override {
    StepTotals totals{.micro_batches = std::ssize(batches_)};
    for (const data::MicroBatch& batch : batches_) totals.targets += batch.targets;
    return totals;
  }
  [[nodiscard]] std::span<const data::MicroBatch> micro_batch(int64_t index) override {
    return subspan_of(batches_, index, 1);
  }
  [[nodiscard]] std::optional<data::StreamPosition> position() const override { return stream_.position(); }

 private:
  std::vector<data::MicroBatch> batches_;  // of the step: its targets must be known before its first micro-batch
  data::BatchStream stream_;
};

}  // namespace

StreamFiller::StreamFiller(ObjectivePtr objective, int64_t tokens)
    : objective_(std::move(objective)), streams_(make_vector<data::MicroBatch>(objective_->streams())) {
  for (data::MicroBatch& stream : streams_) stream.reserve(tokens);
}

std::span<const data::MicroBatch> StreamFiller::fill(const data::RowTable& rows, std::span<const data::Piece> pieces,
                                                     const ReferenceScores& known) {
  objective_->fill(streams_, rows, pieces);
  for (const ReferenceScores::Column& column : known.columns) {
    std::vector<float>& numbers = streams_[0].column(column.name);
    for (const data::Piece& piece : pieces) numbers.push_back(nth(column.values, rows.number_of(piece)));
  }
  return streams_;
}

int64_t total_steps(const config::ScheduleSettings& schedule, const EpochSize& epoch) {
  return schedule.max_steps ? *schedule.max_steps : epoch.steps_of(schedule.num_epochs);
}

TrainingLength training_length(const config::ScheduleSettings& schedule, const data::BatchOptions& options,
                               const TrainingData& data, const PackingProgress& packing) {
  if (data.stream) return {.epoch = {.lines = *schedule.max_steps}, .total_steps = *schedule.max_steps};
  const data::EpochPlan plan = plan_epoch(data.training, options, 0, packing);
  const EpochSize epoch{.lines = plan.lines.size() + plan.left_out,
                        .step_batches = options.step_batches,
                        .batch_lines = options.rows,
                        .drops_last = options.drops_last};
  return {plan.lines.size(), count_tokens(plan.lines.pieces), epoch, total_steps(schedule, epoch)};
}

std::unique_ptr<StepFeed> make_step_feed(const data::BatchOptions& options, ObjectivePtr objective,
                                         const TrainingData& data, const TrainingLength& length,
                                         const std::optional<data::StreamPosition>& from, int64_t tokens,
                                         PackingProgress packing) {
  if (data.stream) return std::make_unique<StreamFeed>(options, data.stream, from.value_or(data::StreamPosition()));
  return std::make_unique<EpochFeed>(options, std::move(objective), data, length.epoch, tokens, std::move(packing));
}

}  // namespace spillway::train
