#include "train/stopping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace spillway::train {

Stopping::Stopping(const config::OutputSettings& output) : best_(output.best), watchdog_(output.loss_watchdog) {
  state_.metric = best_.metric;
}

void Stopping::restore(const StoppingState& state) {
  if (state.metric == best_.metric) {
    state_ = state;
  } else {
    state_.high_losses = state.high_losses;
  }
}

void Stopping::add_loss(double loss) {
  if (!watchdog_) return;
  state_.high_losses = loss > watchdog_->threshold ? state_.high_losses + 1 : 0;
}

bool Stopping::is_better(double value, const JudgedEvaluation& than) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (best_.greater_is_better) return value > (than.step == 0 ? -kInfinity : than.value);
  return value < (than.step == 0 ? kInfinity : than.value);
}

void Stopping::add_evaluation(int64_t step, std::span<const Metric> metrics) {
  const auto found =
      std::find_if(metrics.begin(), metrics.end(), [&](const Metric& one) { return one.key == best_.metric; });
  if (found == metrics.end()) {
    if (!best_.is_kept) return;  // nothing was asked for
    std::vector<std::string_view> names;
    for (const Metric& one : metrics) names.push_back(one.key);
    throw input_error("metric_for_best_model",
                      "expected one of the evaluation's numbers ({}), got {}; name one of them", joined_names(names),
                      quote(best_.metric));
  }
  last_ = {step, found->value};
  const bool is_new = is_better(found->value, state_.best);
  state_.without_better = is_new || !state_.has_evaluations ? 0 : state_.without_better + 1;
  state_.has_evaluations = true;
  if (is_new) state_.best = last_;
}

void Stopping::add_checkpoint(int64_t step) {
  if (last_.step == step && step > 0 && is_better(last_.value, state_.best_saved)) state_.best_saved = last_;
}

std::string Stopping::reason() const {
  if (watchdog_ && state_.high_losses >= watchdog_->patience)
    return fmt::format("loss_watchdog_threshold: the loss of {} steps in a row was above {}", state_.high_losses,
                       watchdog_->threshold);
  if (best_.patience && state_.without_better >= *best_.patience)
    return fmt::format("early_stopping_patience: {} evaluations in a row had no better {} than {:.6g}, of step {}",
                       state_.without_better, best_.metric, state_.best.value, state_.best.step);
  return "";
}

int64_t Stopping::step_to_load(int64_t step) const {
  const JudgedEvaluation& saved = state_.best_saved;
  if (!best_.is_loaded || saved.step == 0 || saved.step == step) return 0;
  if (last_.step == step && is_better(last_.value, saved)) return 0;
  return saved.step;
}

}  // namespace spillway::train
