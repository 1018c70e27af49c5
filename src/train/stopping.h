// Decides which evaluation of a run is the best so far, and whether the run ends before its last step, by the rules of
// transformers' EarlyStoppingCallback (with its threshold of 0) and axolotl's loss watchdog.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/config.h"
#include "train/objectives/metrics.h"

namespace spillway::train {

// An evaluation after a step, with the value of the metric that decides.
struct JudgedEvaluation {
  int64_t step = 0;  // 0: none
  double value = 0;
  bool operator==(const JudgedEvaluation&) const = default;
};

// The state in a checkpoint, with which a resumed run ends where it would have ended.
struct StoppingState {
  std::string metric;            // that the numbers are of
  bool has_evaluations = false;  // one at least
  JudgedEvaluation best;         // of all; step 0 where none was better than the worst there can be
  JudgedEvaluation best_saved;   // of those after whose step a checkpoint was written
  int64_t without_better = 0;    // evaluations in a row
  int64_t high_losses = 0;       // steps in a row
  bool operator==(const StoppingState&) const = default;
};
// stopping_from_json() throws the exceptions of the JSON library.
[[nodiscard]] nlohmann::ordered_json to_json(const StoppingState& state);
[[nodiscard]] StoppingState stopping_from_json(const nlohmann::ordered_json& json);

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
