#include "train/step_feed.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/math.h"

namespace spillway::train {
namespace {

using PackingProgress = std::function<void(int64_t rows, int64_t of)>;

// Rows that are all there, packed and shuffled for each epoch.
class EpochFeed : public StepFeed {
 public:
  EpochFeed(const data::BatchOptions& options, const data::RowTable& rows, int64_t steps_per_epoch, int64_t tokens,
            PackingProgress packing)
      : rows_(rows),
        options_(options),
        accumulation_(options.step_batches),
        steps_per_epoch_(steps_per_epoch),
        packing_(std::move(packing)) {
    for (auto* list : {&batch_.ids, &batch_.labels, &batch_.positions}) list->reserve(static_cast<size_t>(tokens));
    batch_.seq_offsets.reserve(static_cast<size_t>(tokens + 1));
  }

  void begin(int64_t step) override {
    if (const int64_t epoch = step / steps_per_epoch_; epoch != epoch_) {
      epoch_ = epoch;
      plan_ = plan_epoch(rows_, options_, epoch, packing_);
    }
    first_ = std::min(step % steps_per_epoch_ * accumulation_, plan_.micro_batches());
    last_ = std::min(first_ + accumulation_, plan_.micro_batches());
  }
  [[nodiscard]] int64_t micro_batches() const override { return last_ - first_; }
  [[nodiscard]] int64_t targets() const override {
    int64_t targets = 0;
    for (int64_t i = first_; i < last_; ++i) targets += data::count_targets(rows_, plan_.micro_batch(i));
    return targets;
  }
  [[nodiscard]] const data::MicroBatch& micro_batch(int64_t index) override {
    data::fill_micro_batch(batch_, rows_, plan_.micro_batch(first_ + index));
    return batch_;
  }

 private:
  const data::RowTable& rows_;
  data::BatchOptions options_;
  int64_t accumulation_, steps_per_epoch_;
  PackingProgress packing_;
  int64_t epoch_ = -1, first_ = 0, last_ = 0;
  data::EpochPlan plan_;  // of the epoch
  data::MicroBatch batch_;
};

class StreamFeed : public StepFeed {
 public:
  StreamFeed(const data::BatchOptions& options, std::shared_ptr<const data::StreamSource> source,
             const data::StreamPosition& from)
      : batches_(static_cast<size_t>(options.step_batches)),
        stream_(std::move(source), from, options.step_batches + 1) {}

  void begin(int64_t /*step*/) override {
    for (data::MicroBatch& batch : batches_) batch = stream_.next();
  }
  [[nodiscard]] int64_t micro_batches() const override { return std::ssize(batches_); }
  [[nodiscard]] int64_t targets() const override {
    int64_t targets = 0;
    for (const data::MicroBatch& batch : batches_) targets += batch.targets;
    return targets;
  }
  [[nodiscard]] const data::MicroBatch& micro_batch(int64_t index) override {
    return batches_[static_cast<size_t>(index)];
  }
  [[nodiscard]] std::optional<data::StreamPosition> position() const override { return stream_.position(); }

 private:
  std::vector<data::MicroBatch> batches_;  // of the step: its targets must be known before its first micro-batch
  data::BatchStream stream_;
};

}  // namespace

TrainingLength training_length(const config::ScheduleSettings& schedule, const data::BatchOptions& options,
                               const TrainingData& data, const PackingProgress& packing) {
  if (data.stream) return {.steps_per_epoch = *schedule.max_steps, .total_steps = *schedule.max_steps};
  const data::EpochPlan plan = plan_epoch(data.training, options, 0, packing);
  const int64_t per_epoch = div_ceil(plan.micro_batches(), options.step_batches);
  const auto total = schedule.max_steps.value_or(
      static_cast<int64_t>(std::ceil(schedule.num_epochs * static_cast<double>(per_epoch))));
  return {plan.lines.size(), count_tokens(plan.lines.pieces), per_epoch, total};
}

std::unique_ptr<StepFeed> make_step_feed(const data::BatchOptions& options, const TrainingData& data,
                                         const TrainingLength& length, const std::optional<data::StreamPosition>& from,
                                         int64_t tokens, PackingProgress packing) {
  if (data.stream) return std::make_unique<StreamFeed>(options, data.stream, from.value_or(data::StreamPosition()));
  return std::make_unique<EpochFeed>(options, data.training, length.steps_per_epoch, tokens, std::move(packing));
}

}  // namespace spillway::train
