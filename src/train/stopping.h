// Decides which evaluation of a run is the best so far, and whether the run ends before its last step, by the rules of
// transformers' EarlyStoppingCallback (with its threshold of 0) and axolotl's loss watchdog.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/config.h"
#include "objectives/metrics.h"
#include "saved/stopping_state.h"

namespace spillway::train {

class Stopping {
 public:
  explicit Stopping(const config::OutputSettings& output);

  // Restores the state of a checkpoint. Ignores what it says of another metric.
  void restore(const StoppingState& state);
  void add_loss(double loss);
  // Throws InputError if the metric that the config names is not among them.
  void add_evaluation(int64_t step, std::span<const Metric> metrics);
  // Notes that a checkpoint of `step` is about to be written.
  void add_checkpoint(int64_t step);

  // Returns true if the last evaluation was that of `step`, and better than all before.
  [[nodiscard]] bool is_best(int64_t step) const { return step > 0 && state_.best.step == step; }
  [[nodiscard]] bool stops() const { return !reason().empty(); }
  // Returns why the run ends here, for a message; empty if it does not.
  [[nodiscard]] std::string reason() const;
  // Returns the step of the checkpoint whose weights a run at `step` should end with; 0 for its current weights.
  [[nodiscard]] int64_t step_to_load(int64_t step) const;
  [[nodiscard]] const StoppingState& state() const { return state_; }

 private:
  [[nodiscard]] bool is_better(double value, const JudgedEvaluation& than) const;

  config::BestSettings best_;
  std::optional<config::LossWatchdog> watchdog_;
  StoppingState state_;
  JudgedEvaluation last_;
};

}  // namespace spillway::train
