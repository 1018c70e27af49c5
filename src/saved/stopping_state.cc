#include "saved/stopping_state.h"

#include <cmath>
#include <limits>

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

}  // namespace spillway::train
