#include "train/stopping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace spillway::train {
namespace {

using Json = nlohmann::ordered_json;

Json evaluation_json(const JudgedEvaluation& one) {
  if (one.step == 0) return nullptr;
  Json json = {{"step", one.step}, {"value", one.value}};
  // JSON cannot express numbers that are not finite.
  if (!std::isfinite(one.value)) json["value"] = one.value > 0 ? "inf" : "-inf";
  return json;
}

JudgedEvaluation evaluation_from_json(const Json& json) {
  if (json.is_null()) return {};
  const Json& value = json.at("value");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value.is_string()) return {json.at("step"), value.get<std::string>() == "inf" ? kInfinity : -kInfinity};
  return {json.at("step"), value};
}

}  // namespace

Json to_json(const StoppingState& state) {
  return {{"metric_for_best_model", state.metric},
          {"has_evaluations", state.has_evaluations},
          {"best", evaluation_json(state.best)},
          {"best_saved", evaluation_json(state.best_saved)},
          {"evaluations_without_better", state.without_better},
          {"high_losses", state.high_losses}};
}

StoppingState stopping_from_json(const Json& json) {
  return {.metric = json.at("metric_for_best_model"),
          .has_evaluations = json.at("has_evaluations"),
          .best = evaluation_from_json(json.at("best")),
          .best_saved = evaluation_from_json(json.at("best_saved")),
          .without_better = json.at("evaluations_without_better"),
          .high_losses = json.at("high_losses")};
}

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
