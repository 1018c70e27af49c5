// A tracker of experiments, for which a run writes files: TensorBoard, wandb, MLflow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

// The checkpoint at which a run goes on. What was tracked of later steps is taken back, and an evaluation of that step
// too unless the checkpoint was written after it.
struct ResumePoint {
  int64_t step = 0;  // 0: a new run
  bool is_evaluated = true;

  [[nodiscard]] bool keeps(int64_t tracked_step, bool is_evaluation) const {
    return tracked_step < step || (tracked_step == step && (is_evaluated || !is_evaluation));
  }
};

enum class RunEnd { kDone, kInterrupted, kFailed };

// All functions throw MachineError if the disk is full. Not thread-safe.
class Tracker {
 public:
  Tracker() = default;
  Tracker(Tracker&&) = delete;
  virtual ~Tracker() = default;

  // Write the numbers of a step: begin_step(), then add() for each, then end_step().
  virtual void begin_step(int64_t step) = 0;
  // Adds the number "PREFIX/KEY". The prefix is "train" or "eval".
  virtual void add(std::string_view prefix, std::string_view key, double value) = 0;
  virtual void end_step() = 0;
  // Brings everything to the disk.
  virtual void sync() = 0;
  // Records how the run ended. Nothing is written after it.
  virtual void finish(RunEnd end) = 0;
  // Returns a sentence on where the run is and what shows it; empty where nothing has to be said.
  [[nodiscard]] virtual std::string note() const { return {}; }
};

// The prefixes that transformers gives the numbers of steps and of evaluations.
inline constexpr std::string_view kTrainingPrefix = "train", kEvaluationPrefix = "eval";

}  // namespace spillway
