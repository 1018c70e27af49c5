#include "train/rows/row_data.h"

#include <utility>

#include "base/error.h"
#include "data/prepared/identity.h"

namespace spillway::train {
namespace {

// The micro-batches of validation rows.
class RowEvaluation final : public EvaluationFeed {
 public:
  RowEvaluation(const Job& job, const TrainingData& data, int64_t tokens)
      : data_(data),
        filler_(job.graph.objective, tokens),
        plan_(plan_epoch(data.validation, job.config.data.evaluation_batches, 0)) {}

  [[nodiscard]] std::span<const data::MicroBatch> next() override {
    if (next_ == plan_.micro_batches()) return {};
    return filler_.fill(data_.validation, plan_.micro_batch(next_++), data_.validation_scores);
  }

 private:
  const TrainingData& data_;
  StreamFiller filler_;
  data::EpochPlan plan_;
  int64_t next_ = 0;
};

// Rows of tokens in memory, or a stream of them.
class TokenData final : public RunData {
 public:
  TokenData(const Job& job, const TrainingData& data, DataListeners listeners)
      : job_(job), data_(data), listeners_(std::move(listeners)) {}

  void check() const override {
    if (data_.stream) return;
    if (data_.training.empty())
      throw input_error("datasets", "expected rows to train on, got none; see the counts of dropped rows");
    const data::BatchOptions& evaluation = job_.config.data.evaluation_batches;
    const bool is_cut = evaluation.drops_last && has_evaluation();
    if (is_cut && plan_epoch(data_.validation, evaluation, 0).micro_batches() == 0)
      throw input_error("dataloader_drop_last",
                        "expected rows for a whole micro-batch of {} to evaluate on, got fewer; lower eval_batch_size, "
                        "or remove it",
                        evaluation.rows);
    job_.graph.objective->check(data_.training);
  }
  [[nodiscard]] TrainingLength length() const override {
    return training_length(job_.config.schedule, job_.config.data.batches, data_, listeners_.packing);
  }
  // A stream's position has a line of its own.
  [[nodiscard]] bool counts_rows() const override { return !data_.stream; }
  void identify(int64_t steps_per_epoch, TrainingPosition& position) const override {
    if (!data_.validation.empty()) position.evaluation_checksum = data_.validation.checksum();
    if (data_.stream) {
      position.stream.emplace();
      position.stream_identity = data::stream_identity(*data_.stream);
      return;
    }
    position.rows = data_.training.size();
    position.rows_checksum = data_.training.checksum();
    position.steps_per_epoch = steps_per_epoch;
  }
  [[nodiscard]] std::unique_ptr<StepFeed> make_feed(TrainingSession&, const TrainingLength& length,
                                                    const TrainingPosition& position, Ranks&) const override {
    return make_step_feed(job_.config.data.batches, job_.graph.objective, data_, length, position.stream,
                          job_.graph.model.tokens, listeners_.packing);
  }
  [[nodiscard]] bool has_evaluation() const override { return !data_.validation.empty(); }
  [[nodiscard]] std::unique_ptr<EvaluationFeed> make_evaluation(const TrainingSession&) const override {
    return std::make_unique<RowEvaluation>(job_, data_, job_.graph.model.tokens);
  }

 private:
  const Job& job_;
  const TrainingData& data_;
  DataListeners listeners_;
};

}  // namespace

std::unique_ptr<RunData> make_row_data(const Job& job, const TrainingData& data, DataListeners listeners) {
  return std::make_unique<TokenData>(job, data, std::move(listeners));
}

}  // namespace spillway::train
