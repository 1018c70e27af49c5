// A training job in memory: the arena, its contents, and the sections of its program. One object, one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "data/batch.h"
#include "runtime/executor.h"
#include "runtime/value_store.h"
#include "train/job.h"
#include "train/state.h"

namespace spillway::train {

// One micro-batch: the content of each column, as model and objective name them. Of a value whose rows do not count
// tokens there may be less than it has room for; then the last element stands for the others.
struct Batch {
  static constexpr size_t kMaxColumns = 8;
  struct Content {
    std::string_view name;
    std::span<const std::byte> bytes;
  };
  int64_t tokens = 0;  // rows of the stream, <= T
  std::array<Content, kMaxColumns> columns{};

  // REQUIRES: there is one of that name.
  [[nodiscard]] std::span<const std::byte> content(std::string_view name) const;
};
// Borrows the rows.
[[nodiscard]] Batch batch_of(const data::MicroBatch& rows);

// Sums over the targets of a micro-batch.
struct Evaluation {
  double loss = 0;
  std::vector<double> sums;  // as the objective says
};

class TrainingSession {
 public:
  // Allocates the arenas and checks the programs with the verifier. All is borrowed and must outlive the session.
  // `options` say where the lower tiers are and who runs the lanes.
  TrainingSession(const Job& job, const PlannedJob& planned, ThreadPool& pool, const ExecutorOptions& options = {});

  // Begins optimizer step `step`, counted from 0. Before its micro-batches, since they may update already.
  void begin_step(double learning_rate, int64_t step);
  // Forward and backward: adds to the gradients. `scale` is 1 / targets of the whole step; `micro_step` counts from 0
  // within it and chooses the dropout, with the step. Returns the micro-batch's share of the step's mean loss.
  double micro_step(const Batch& batch, float scale, int64_t micro_step);
  // Clips, updates, clears, as far as the micro-batch has not. Returns the gradients' norm before clipping.
  double update();
  // Without dropout and gradients. The first call starts the lanes of another program.
  Evaluation evaluate(const Batch& batch);
  // The answers to the job's sample prompts. The first call starts the lanes of two more programs. REQUIRES: it has
  // some.
  std::vector<Generated> sample();

  // As Executor::home.
  [[nodiscard]] TensorView home(ValueId id) const { return executor_.home(id); }
  // The contents of all persistent values, between steps.
  [[nodiscard]] ValueStore& store() { return executor_.values(); }
  [[nodiscard]] const Executor& executor() const { return executor_; }
  // Between the two, the executor notes the times of every instruction: of one step.
  void start_trace() { executor_.start_trace(); }
  void stop_trace() { executor_.stop_trace(); }
  [[nodiscard]] const TrainingGraph& training() const { return planned_.training; }

 private:
  const Job& job_;
  const PlannedJob& planned_;
  ThreadPool& pool_;
  uint64_t seed_;
  int64_t step_ = 0;
  ExecutorOptions options_;
  Memory memory_;
  Executor executor_;
  std::optional<Executor> evaluation_, decode_, prompt_;
};

}  // namespace spillway::train
