// The coefficient of the entropy bonus in the loss, which may adapt to the entropy: TRL 1.16's use_adaptive_entropy.
#pragma once

#include <nlohmann/json.hpp>

#include "objectives/online/online.h"

namespace spillway::train {

class EntropyControl {
 public:
  explicit EntropyControl(const config::OnlineSettings& settings)
      : adaptive_(settings.adaptive_entropy), coef_(settings.entropy_coef) {}

  [[nodiscard]] bool is_adaptive() const { return adaptive_.has_value(); }
  // The coefficient for the micro-batches of a step.
  [[nodiscard]] double applied() const;
  [[nodiscard]] double coef() const { return coef_; }
  void add(const ActingEntropy& micro_batch);
  // Adapts the coefficient. Call it after the last micro-batch of a step.
  void end_step();

  // The state for a checkpoint. restore() keeps the config's coefficient if it is not adaptive any more.
  [[nodiscard]] nlohmann::ordered_json state() const;
  void restore(const nlohmann::ordered_json& state);

 private:
  std::optional<config::AdaptiveEntropy> adaptive_;
  double coef_;
  std::optional<double> last_;  // the mean entropy of the step before
  ActingEntropy step_;
};

}  // namespace spillway::train
