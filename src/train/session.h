// A training job in memory: the arenas, their contents, and the executors of its programs. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "data/batch.h"
#include "infer/batch.h"
#include "job/planned_job.h"
#include "runtime/executor.h"
#include "runtime/part_store.h"
#include "runtime/value_store.h"
#include "saved/state.h"
#include "train/stream_share.h"

namespace spillway::train {

// Views of all streams of a micro-batch. Borrows the rows and allocates nothing. An objective has at most kMax.
class BatchStreams {
 public:
  static constexpr size_t kMax = 2;
  explicit BatchStreams(std::span<const data::MicroBatch> streams);
  explicit BatchStreams(std::span<const infer::Batch> streams);
  [[nodiscard]] std::span<const infer::Batch> list() const { return std::span(batches_).first(count_); }

 private:
  std::array<infer::Batch, kMax> batches_;
  size_t count_;
};

class TrainingSession {
 public:
  // Allocates the arenas and checks the programs with the verifier. Borrows its arguments, which must outlive the
  // session. `options` say where the lower tiers are and which threads run the lanes.
  TrainingSession(const Job& job, PlannedJob& planned, ThreadPool& pool, const ExecutorOptions& options = {});

  // Trains the layers of a draw from its first step on: plans their program, and puts it in the place of the one before
  // it, as PlannedJob::training and plan. Does nothing but count if the same layers are trained already. Call it
  // between steps. Throws InputError where the program does not fit in the memory of the job. REQUIRES:
  // job.graph.drawn.
  void draw(const LayerDraw& draw);

  // Begins update `step` of the weights, counted from 0. Must come before its micro-batches, of which it has
  // `micro_batches` on all ranks and which may already update weights. Other programs may run between them.
  void begin_step(double learning_rate, int64_t step, int64_t micro_batches = 1);
  // Runs the passes that score rows, forward and backward, and adds to the gradients. `streams` are those of the
  // objective, `scale` is Objective::scale() of the step; `micro_step` counts from 0 within the step and selects the
  // dropout masks together with it. Returns the micro-batch's share of the step's loss.
  double micro_step(std::span<const infer::Batch> streams, float scale, int64_t micro_step) {
    const BatchStreams one(streams);
    return micro_steps({&one, 1}, scale, micro_step).front();
  }
  double micro_step(const infer::Batch& batch, float scale, int64_t micro_step) {
    return this->micro_step(std::span(&batch, 1), scale, micro_step);
  }
  // Does the same for the micro-batches of a group, in any number up to TrainingGraph::group, and returns the share of
  // each, valid until the next call; `first` is the number of the first. Has the bits of one micro_step() after
  // another.
  std::span<const double> micro_steps(std::span<const BatchStreams> group, float scale, int64_t first);
  // The halves of micro_steps(): the passes and forward, and backward. Several ranks compute micro-batches in turn:
  // those of this rank, which may be none, have the numbers first, first + apart, ..., and all ranks run backward at
  // once, whose sums are over so many micro-batches of all ranks.
  std::span<const double> forward_steps(std::span<const BatchStreams> group, float scale, int64_t first,
                                        int64_t apart = 1);
  void backward_step(int64_t micro_batches = 1);
  // Runs forward_steps() once more on a group whose loss is not finite, and returns where that begins: "NaN from
  // matmul in layer 3". Empty for several ranks, which compute it together. REQUIRES: no weight has changed since.
  [[nodiscard]] std::string find_not_finite(std::span<const BatchStreams> group, float scale, int64_t first);
  // Clips the gradients, updates the weights and clears the gradients, as far as the micro-batches have not done so.
  // Returns the norm of the gradients before clipping.
  double update();
  // Returns the loss for a scale of one, without dropout and gradients. The first call starts the lanes of another
  // program.
  double evaluate(std::span<const infer::Batch> streams);
  double evaluate(const infer::Batch& batch) { return evaluate(std::span(&batch, 1)); }
  // Returns the same for each micro-batch of a group, in any number up to PlannedJob::together(), valid until the next
  // call. Has the bits of one evaluate() after another.
  std::span<const double> evaluate_group(std::span<const BatchStreams> group);
  // Runs the passes that come before training on the micro-batches of a group, in any number up to
  // PlannedJob::together(). REQUIRES: the job has such passes; for precomputed scores of the reference, no step has
  // been made.
  void score(std::span<const BatchStreams> group);
  // Returns the scores of a micro-batch by the last score(), pass after pass: f32 [rows] or [tokens], of all ranks that
  // share it; valid until the next one.
  [[nodiscard]] std::span<const std::vector<double>> scores(size_t in_group = 0) const;
  // Returns the scores of each batch's tokens by the job's reward model number `model`. REQUIRES: its program has
  // capacity for the texts of each batch, and PlannedJob::together() for so many batches.
  [[nodiscard]] std::vector<std::vector<float>> score_texts(size_t model, std::span<const data::MicroBatch> batches);
  // Returns the persistent values of the scoring program, which include those of training. REQUIRES: as score().
  [[nodiscard]] ValueStore& scoring_store() { return started(*planned_.find(JobProgram::Kind::kScoring)).values(); }
  // Returns Loss::observed of the last micro_step() or evaluate(), valid until the next one begins; of micro_steps()
  // and evaluate_group() that of each micro-batch by its number in the group.
  [[nodiscard]] std::span<const std::vector<double>> observed(size_t in_group = 0) const;
  // Returns the model's own metrics, whose numbers are the last of observed(); none after evaluate().
  [[nodiscard]] std::span<const ModelMetric> model_metrics() const { return model_metrics_; }
  // Generates with the current weights. The first call starts the lanes of two more programs. REQUIRES: the job
  // generates, and its programs have capacity for each prompt. If the programs gather weights, each of several ranks
  // calls it, with prompts of its own and `any_rank` (GenerationPrograms), or all with the same prompts.
  std::vector<infer::Generated> generate(std::span<const infer::Prompt> prompts,
                                         const infer::GenerationOptions& options,
                                         const std::function<bool(bool)>& any_rank = nullptr);
  // Returns true if generation gathers weights from several ranks in each of its runs.
  [[nodiscard]] bool generation_gathers() const;
  // Returns the largest Executor::measured_peak_bytes() of all programs that ran, by tier.
  [[nodiscard]] std::array<int64_t, kTiers> measured_peak_bytes() const;
  // Returns the same since the last call of this function.
  [[nodiscard]] std::array<int64_t, kTiers> take_recent_peak_bytes();
  // Returns the lane profile of each of PlannedJob::beside, null for one that has not run. The trace (ExecutorOptions)
  // covers its first runs in the last generate(), score() or score_texts().
  [[nodiscard]] std::vector<const LaneProfile*> profiles() const;
  // Returns the bytes that generation has moved to the device from other tiers, or between ranks, so far.
  [[nodiscard]] int64_t generation_bytes_streamed() const;
  // Answers the job's sample prompts. Answers end with the tokenizer's end tokens and with `ends`. REQUIRES: the job
  // has sample prompts.
  std::vector<infer::Generated> sample(std::span<const int32_t> ends);

  // Returns the memory of a value, as Executor::home().
  [[nodiscard]] TensorView home(ValueId id) const { return executor_->home(id); }
  // The contents of all persistent values, for use between steps. With several ranks, all of them read in the same
  // order (runtime/part_store.h).
  [[nodiscard]] ValueStore& store() { return parts_ ? static_cast<ValueStore&>(*parts_) : executor_->values(); }
  // Returns the same store where several ranks have parts of some values, else null.
  [[nodiscard]] PartStore* part_store() { return parts_ ? &*parts_ : nullptr; }
  [[nodiscard]] const Executor& executor() const { return *executor_; }
  // Start and stop recording the time of every instruction of a step.
  void start_trace() { executor_->start_trace(); }
  void stop_trace() { executor_->stop_trace(); }
  [[nodiscard]] const TrainingGraph& training() const { return planned_.training; }
  [[nodiscard]] const PlannedJob& planned() const { return planned_; }

 private:
  // Returns the executor of a program of planned_.beside. The first call starts its lanes.
  Executor& started(const JobProgram& program);
  // Starts the program of planned_.training.
  void start_training();
  void set_step_values();
  template <typename StreamsOf>
  void run_forward(Executor& executor, const Graph& graph, const AppendedObjective& objective,
                   std::span<const MicroBatchValues> group, const StreamsOf& streams_of, SectionId section);
  void share_results(const Graph& graph, const AppendedObjective& objective, std::span<const MicroBatchValues> group);

  const Job& job_;
  PlannedJob& planned_;
  ThreadPool& pool_;
  uint64_t seed_;
  LayerDraw draw_;  // of a job of drawn layers; none yet: its counts begin at 0
  int64_t step_ = 0;
  double learning_rate_ = 0;
  float router_loss_weight_ = 0;  // in a micro-batch
  ExecutorOptions options_;
  Memory memory_;
  std::unique_ptr<Executor> executor_;          // training's
  std::array<int64_t, kTiers> peaks_before_{};  // of the executors before it
  std::optional<PartStore> parts_;              // of several ranks: training's values as if this rank had all of them
  StreamShare share_;                           // of micro-batches that ranks share
  std::vector<std::unique_ptr<Executor>> beside_;  // of planned_.beside, null until one runs
  std::vector<double> losses_;                     // of a group's micro-batches, those with no rows included
  std::vector<std::vector<double>> observed_;      // by micro-batch
  std::span<const ModelMetric> model_metrics_;
  std::vector<std::vector<double>> scores_;  // of a group's micro-batches, those with no rows included
};

}  // namespace spillway::train
