// The training loop: epochs, steps, evaluation, checkpoints. The computation of a step is that of the plan; the loop
// only feeds it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch.h"
#include "job/initial_state.h"
#include "job/training_data.h"
#include "saved/checkpoint.h"
#include "saved/run_start.h"
#include "train/contribution.h"
#include "train/evaluator.h"
#include "train/held_group.h"
#include "train/learning_rate.h"
#include "train/ranks.h"
#include "train/run_data.h"
#include "train/session.h"
#include "train/step_feed.h"
#include "train/stopping.h"

namespace spillway::train {

// The rank for which the others waited in a step.
struct SlowestRank {
  int rank = 0;
  double waited_seconds = 0;  // by another rank, on average
};

// One line of metrics.jsonl.
struct StepRecord {
  int64_t step = 0;  // from 1
  int64_t total_steps = 0;
  double epoch = 0, loss = 0, grad_norm = 0, learning_rate = 0;
  std::span<const Metric> metrics;                 // that the objective shows beside its loss; until the next record
  int64_t num_tokens = 0;                          // of the run, as the metric counts them
  int64_t trained_tokens = 0;                      // of the step
  double tokens_per_second = 0, step_seconds = 0;  // as rank 0 has them
  std::optional<SlowestRank> slowest{};            // of several ranks
};
struct EvaluationRecord {
  int64_t step = 0;
  int64_t weights_step = 0;  // of the weights: `step`, unless those of the best checkpoint were taken at the end
  double epoch = 0;
  std::span<const Metric> metrics;  // the loss first; until the next record
};

struct SampleRecord {
  int64_t step = 0;
  std::vector<SampleAnswer> answers;
};

// Callbacks for progress and results. Empty functions are not called.
struct TrainingListeners {
  // A job that draws layers calls these before it changes the program of training, and behind that.
  std::function<void()> before_draw;
  std::function<void(const LayerDraw&)> draw;
  std::function<void()> before_step;
  std::function<void(const StepRecord&)> step;
  std::function<void(const EvaluationRecord&)> evaluation;
  std::function<void(const SampleRecord&)> samples;
  std::function<void(const RoundRecord&)> round;  // of online reinforcement learning
  std::function<void(const SampleSeen&)> sample;  // of clips
  std::function<void(const ClipsRecord&)> clips;  // that were sampled
  std::function<void()> before_checkpoint;
  // After one that an undisturbed run has, too, and before older ones are removed. Where one rank has it, all have: it
  // may call functions of Ranks. The folder is rank 0's; the others' is empty.
  std::function<void(const std::filesystem::path& folder, int64_t step)> checkpoint;
  std::function<void(int64_t rows, int64_t of)> packing;  // as an epoch's rows are packed
};

struct TrainingOutcome {
  bool interrupted = false;
  std::string ended_early;  // why, where the run ended before its last step and was not interrupted
  int64_t loaded_step = 0;  // of the checkpoint whose weights are in output_dir; 0: those of the last step
  std::vector<KeptMetric> final_evaluation;  // of those weights; empty where this process evaluated nothing of them
  int64_t steps = 0;                         // done by this process
  int64_t first_step = 0;                    // done before it
  int64_t tokens = 0;                        // trained on by this process
  double step_seconds_sum = 0;
  double median_step_seconds = 0;
};

class Trainer {
 public:
  // Borrows all but `start`. `base` identifies the job's base weights. Throws InputError if there is nothing to train
  // on, or if the checkpoint does not belong to job, data and base. With several ranks each has a trainer, whose
  // functions they call together; rank 0's writes all files.
  Trainer(const Job& job, TrainingSession& session, const TrainingData& data, RunStart start, BaseIdentity base,
          TrainingListeners listeners, MakeRounds make_rounds = {}, Ranks* ranks = nullptr);

  // Throws InputError, on all ranks, naming what differs on the first rank that has another job, other data or other
  // weights in the `files` that it begins with than rank 0, or is another version of the program.
  void check_same_on_all_ranks(std::string_view version, const WeightFiles& files);

  [[nodiscard]] const TrainingLength& length() const { return length_; }
  // Loads the state of the checkpoint that the run starts from, if there is one. Call it after the weights are loaded.
  // Throws InputError for a checkpoint that is damaged, or of another job.
  void load_checkpoint();
  [[nodiscard]] int64_t step() const { return position_.step; }
  // Returns true if the weights of that step have been evaluated, by this process or before the checkpoint was written.
  [[nodiscard]] bool is_evaluated() const { return position_.is_evaluated == true; }
  // Trains to the end or to an interrupt, then writes the model into output_dir (a checkpoint, if interrupted). Throws
  // InputError, and writes nothing more, if the loss or the gradients are no longer finite. REQUIRES: the caller holds
  // a FinishFirst, so that an interrupt is only seen between steps.
  TrainingOutcome run();

 private:
  void go_on_from(const TrainingPosition& position, const EpochSize& before);
  [[nodiscard]] EpochSize size_before() const;
  void change_batches(const EpochSize& before);
  void check_scores() const;
  void say_change(const EpochSize& before) const;
  void begin_step();
  template <typename Feed>
  [[nodiscard]] auto or_save(const Feed& feed);
  StepRecord train_step();
  [[nodiscard]] double met_seconds() const;
  void share_pace(StepRecord& record);
  // The micro-batches of an update that all ranks compute together, [first, first + count).
  struct Turn {
    int64_t update = 0, first = 0, count = 0;
  };
  void take_group(const StepTotals& totals, const Turn& turn);
  void learn_group(const StepTotals& totals, const Turn& turn, Contribution& step);
  void forward_on_ranks(const StepTotals& totals, const Turn& turn, Contribution& step);
  [[nodiscard]] int64_t dealt() const { return ranks_.groups_of(job_.config.ranks.context); }
  void first_with_parts(const std::function<void()>& body);
  [[nodiscard]] std::string contributions(const StepTotals& totals, const Turn& turn);
  [[nodiscard]] std::span<const Metric> step_metrics();
  [[nodiscard]] bool evaluate();
  void evaluate_kept(TrainingOutcome& outcome);
  void tell_evaluation(int64_t weights_step);
  void sample_data();
  void sample();
  // kDue: an undisturbed run has this checkpoint, too. kEarlyEnd: a signal or an error caused it. It does not count
  // among those of which the best is kept, so that a resumed run ends as an undisturbed one.
  enum class SaveReason { kDue, kEarlyEnd };
  void save(SaveReason reason, CheckpointContent content);
  void try_to_save();
  void save_result(const TrainingOutcome& outcome);
  void remove_old() const;
  void check_intervals() const;
  void check_room() const;
  [[nodiscard]] int64_t evaluation_interval() const;
  [[nodiscard]] bool is_due(int64_t every) const;
  [[nodiscard]] bool is_due(const config::Interval& interval) const;
  [[nodiscard]] bool is_evaluation_due() const;
  void begin_run(TrainingOutcome& outcome);
  void finish_step(TrainingOutcome& outcome);
  void load_best(TrainingOutcome& outcome);
  [[nodiscard]] ModelInTraining model() {
    return {job_, base_files_, session_.training(), session_.store(), merged_base_};
  }
  void restart_adapter_if_due();
  void draw_layers_if_due();
  void check_same_plan();
  void keep_base_of(const CheckpointRecord& checkpoint);
  [[nodiscard]] TrainedFacts facts() const;

  const Job& job_;
  TrainingSession& session_;
  TrainingListeners listeners_;
  std::vector<int32_t> ends_;  // of answers, beside those of the tokenizer
  BaseFiles base_files_;
  std::filesystem::path merged_base_;  // of an adapter that has restarted
  std::unique_ptr<RunData> data_;
  TrainingLength length_;
  std::optional<LearningRate> learning_rate_;  // once the length is known
  Ranks alone_;
  Ranks& ranks_;
  Evaluator evaluator_;
  Stopping stopping_;
  TrainedFacts facts_;  // that change as the run goes on
  TrainingPosition position_;
  std::optional<LayerDraws> draws_;  // of a job that trains drawn layers
  bool has_drawn_ = false;           // in this process
  std::optional<CheckpointRecord> from_;
  std::filesystem::path earlier_output_;  // the folder of that checkpoint and those before it; empty without
  std::unique_ptr<StepFeed> feed_;        // while it runs
  HeldGroup group_;                       // that a run of the plan trains on
  MetricSums sums_;
  std::string not_finite_;  // where the first loss of this process that is not finite has become so
  std::vector<Metric> metrics_;
  std::set<std::string, std::less<>> metric_keys_;  // of what other ranks have added to sums_
  double met_seconds_ = 0;                          // that this rank had spent with the others when the step began
};

}  // namespace spillway::train
