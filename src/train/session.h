// A training job in memory: the arena, its contents, and the sections of its program. One object, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "data/batch.h"
#include "infer/batch.h"
#include "job/planned_job.h"
#include "runtime/executor.h"
#include "runtime/value_store.h"
#include "saved/state.h"

namespace spillway::train {

// Those of all streams of a micro-batch, without memory of its own. Borrows the rows.
class BatchStreams {
 public:
  static constexpr size_t kMax = 2;
  explicit BatchStreams(std::span<const data::MicroBatch> streams);
  [[nodiscard]] std::span<const infer::Batch> list() const { return std::span(batches_).first(count_); }

 private:
  std::array<infer::Batch, kMax> batches_;
  size_t count_;
};

class TrainingSession {
 public:
  // Allocates the arenas and checks the programs with the verifier. All is borrowed and must outlive the session.
  // `options` say where the lower tiers are and who runs the lanes.
  TrainingSession(const Job& job, const PlannedJob& planned, ThreadPool& pool, const ExecutorOptions& options = {});

  // Begins update `step` of the weights, counted from 0. Before its micro-batches, since they may update already.
  // Between these the other programs may run.
  void begin_step(double learning_rate, int64_t step);
  // Passes that score rows, forward and backward: adds to the gradients. `streams` as the objective says, `scale` is
  // Objective::scale of the step; `micro_step` counts from 0 within it and chooses the dropout, with the step. Returns
  // the micro-batch's share of the step's loss.
  double micro_step(std::span<const infer::Batch> streams, float scale, int64_t micro_step);
  double micro_step(const infer::Batch& batch, float scale, int64_t micro_step) {
    return this->micro_step(std::span(&batch, 1), scale, micro_step);
  }
  // Clips, updates, clears, as far as the micro-batch has not. Returns the gradients' norm before clipping.
  double update();
  // The loss for a scale of one, without dropout and gradients. The first call starts the lanes of another program.
  double evaluate(std::span<const infer::Batch> streams);
  double evaluate(const infer::Batch& batch) { return evaluate(std::span(&batch, 1)); }
  // The scores of the passes that run before training, in the order of ScoringGraph::scores: f32 [rows] or [tokens],
  // until the next call. REQUIRES: the job has such passes; of precomputed scores of the reference, that no step was
  // made.
  [[nodiscard]] std::span<const std::vector<double>> score(std::span<const infer::Batch> streams);
  // The score of each token by the job's reward model of that number, until the next call. REQUIRES: its program has
  // room for the texts.
  [[nodiscard]] std::span<const float> score_texts(size_t model, const data::MicroBatch& texts);
  // The contents of that program's persistent values, training's among them. REQUIRES: as for score().
  [[nodiscard]] ValueStore& scoring_store() { return started(planned_.scoring->plan).values(); }
  // Loss::observed of the last micro-batch, until the next begins; after micro_step() or evaluate().
  [[nodiscard]] std::span<const std::vector<double>> observed() const { return observed_; }
  // Generates with the weights as they are. The first call starts the lanes of two more programs. REQUIRES: the job
  // generates, and its programs have room for each prompt.
  std::vector<infer::Generated> generate(std::span<const infer::Prompt> prompts,
                                         const infer::GenerationOptions& options);
  // Of all programs that ran: as Executor::measured_peak_bytes, by tier.
  [[nodiscard]] std::array<int64_t, kTiers> measured_peak_bytes() const;
  // The same since this was last asked for.
  [[nodiscard]] std::array<int64_t, kTiers> take_recent_peak_bytes();
  // Of each of programs_of() of the plan what its lanes did so far, null where it has not run. Of one beside training
  // that is traced (ExecutorOptions), the trace is of its first runs in the last generate(), score() or score_texts().
  [[nodiscard]] std::vector<const LaneProfile*> profiles() const;
  // What came to the device from other tiers for it so far.
  [[nodiscard]] int64_t generation_bytes_streamed() const;
  // The answers to the job's sample prompts, which end with the tokenizer's ends and these. REQUIRES: it has some.
  std::vector<infer::Generated> sample(std::span<const int32_t> ends);

  // As Executor::home.
  [[nodiscard]] TensorView home(ValueId id) const { return executor_.home(id); }
  // The contents of all persistent values, between steps.
  [[nodiscard]] ValueStore& store() { return executor_.values(); }
  [[nodiscard]] const Executor& executor() const { return executor_; }
  // Between the two, the executor notes the times of every instruction: of one step.
  void start_trace() { executor_.start_trace(); }
  void stop_trace() { executor_.stop_trace(); }
  [[nodiscard]] const TrainingGraph& training() const { return planned_.training; }
  [[nodiscard]] const PlannedJob& planned() const { return planned_; }

 private:
  // The number of the program that has this plan, one of planned_.
  [[nodiscard]] size_t program_of(const Plan& plan) const;
  // What runs it. The first call starts its lanes.
  Executor& started(const Plan& plan);
  void set_step_values();
  void run_forward(Executor& executor, const AppendedObjective& objective, std::span<const infer::Batch> streams,
                   SectionId section);

  const Job& job_;
  const PlannedJob& planned_;
  ThreadPool& pool_;
  uint64_t seed_;
  int64_t step_ = 0;
  double learning_rate_ = 0;
  ExecutorOptions options_;
  std::vector<JobProgram> programs_;
  Memory memory_;
  std::vector<std::unique_ptr<Executor>> executors_;  // by program, null until it runs
  Executor& executor_;                                // training's, which is there from the start
  std::vector<std::vector<double>> observed_, reference_scores_;
};

}  // namespace spillway::train
