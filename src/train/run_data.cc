#include "train/run_data.h"

#include <utility>

#include "base/error.h"
#include "data/prepared/identity.h"
#include "io/checksum.h"

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

std::string prompts_checksum(const std::vector<data::PromptRow>& rows) {
  Checksum sum;
  for (const data::PromptRow& row : rows) {
    const auto length = std::ssize(row.ids);
    sum.add(std::as_bytes(std::span(&length, 1)));
    sum.add(std::as_bytes(std::span(row.ids)));
  }
  return sum.text();
}

// Prompts, from which the run generates its completions.
class PromptData final : public RunData {
 public:
  PromptData(const Job& job, DataListeners listeners, MakeRounds make_rounds)
      : job_(job), listeners_(std::move(listeners)), make_rounds_(std::move(make_rounds)) {}

  [[nodiscard]] TrainingLength length() const override {
    const RoundSchedule schedule(job_.config, std::ssize(job_.online->training));
    const EpochSize epoch = schedule.epoch();
    const config::ScheduleSettings& said = job_.config.schedule;
    const bool is_ppo = job_.config.online->kind == config::OnlineKind::kPpo;
    if (!is_ppo || said.max_steps) return {.epoch = epoch, .total_steps = total_steps(said, epoch)};
    return {.epoch = epoch, .total_steps = schedule.rounds_for(said.num_epochs)};
  }
  // A round of completions may be trained on in part.
  [[nodiscard]] bool counts_rows() const override { return false; }
  void identify(int64_t steps_per_epoch, TrainingPosition& position) const override {
    position.rows = std::ssize(job_.online->training);
    position.rows_checksum = prompts_checksum(job_.online->training);
    if (has_evaluation()) position.evaluation_checksum = prompts_checksum(job_.online->validation);
    position.steps_per_epoch = steps_per_epoch;
  }
  [[nodiscard]] std::unique_ptr<StepFeed> make_feed(TrainingSession& session, const TrainingLength& length,
                                                    const TrainingPosition& position, Ranks& ranks) const override {
    return std::make_unique<RolloutFeed>(job_, session, make_rounds_(session, length.total_steps), listeners_.round,
                                         position, ranks);
  }
  [[nodiscard]] bool has_evaluation() const override { return !job_.online->validation.empty(); }
  [[nodiscard]] std::unique_ptr<EvaluationFeed> make_evaluation(const TrainingSession&) const override {
    return nullptr;
  }

 private:
  const Job& job_;
  DataListeners listeners_;
  MakeRounds make_rounds_;
};

class ClipData final : public RunData {
 public:
  ClipData(const Job& job, const ClipSets& sets, DataListeners listeners)
      : job_(job),
        sets_(sets),
        listeners_(std::move(listeners)),
        order_(clip_order(job.config, sets.training)),
        sampler_(*job.clips, sets) {}

  [[nodiscard]] TrainingLength length() const override {
    int64_t patches = 0;
    for (const int64_t row : sets_.training.chosen)
      patches += sets_.training.rows->header(row).latents.patches(job_.clips->demands.patch);
    return {order_.size.lines, patches, order_.size, total_steps(job_.config.schedule, order_.size)};
  }
  void identify(int64_t steps_per_epoch, TrainingPosition& position) const override {
    position.rows = order_.size.lines;
    position.rows_checksum = sets_.training.rows->checksum();
    if (has_evaluation()) position.evaluation_checksum = sets_.validation.rows->checksum();
    position.steps_per_epoch = steps_per_epoch;
  }
  [[nodiscard]] std::unique_ptr<StepFeed> make_feed(TrainingSession&, const TrainingLength& length,
                                                    const TrainingPosition& position, Ranks& ranks) const override {
    ClipOrder order = order_;
    order.size = length.epoch;
    return std::make_unique<ClipFeed>(*job_.clips, sets_.training, order, position.step, length.total_steps,
                                      RankPart{ranks.rank(), ranks.size()}, listeners_.sample);
  }
  void sample(TrainingSession& session, int64_t step) const override {
    if (!listeners_.clips) return;
    if (step == 0) listeners_.clips({.are_originals = true, .clips = sampler_.originals()});
    listeners_.clips({.step = step, .clips = sampler_.sample(session)});
  }
  [[nodiscard]] bool has_evaluation() const override { return sets_.validation.size() > 0; }
  [[nodiscard]] std::unique_ptr<EvaluationFeed> make_evaluation(const TrainingSession&) const override {
    return std::make_unique<ClipEvaluation>(*job_.clips, sets_.validation, job_.config.data.evaluation_batches.rows);
  }

 private:
  const Job& job_;
  const ClipSets& sets_;
  DataListeners listeners_;
  ClipOrder order_;
  ClipSampler sampler_;
};

}  // namespace

std::unique_ptr<RunData> make_run_data(const Job& job, const TrainingData& data, DataListeners listeners,
                                       MakeRounds make_rounds) {
  if (job.online) return std::make_unique<PromptData>(job, std::move(listeners), std::move(make_rounds));
  if (job.clips) return std::make_unique<ClipData>(job, *data.clips, std::move(listeners));
  return std::make_unique<TokenData>(job, data, std::move(listeners));
}

}  // namespace spillway::train
