// The weight of the entropy in the loss, which may follow the entropy itself: TRL 1.16's use_adaptive_entropy.
#pragma once

#include <nlohmann/json.hpp>

#include "objectives/online/online.h"

namespace spillway::train {

class EntropyControl {
 public:
  explicit EntropyControl(const config::OnlineSettings& settings)
      : adaptive_(settings.adaptive_entropy), coef_(settings.entropy_coef) {}

  [[nodiscard]] bool is_adaptive() const { return adaptive_.has_value(); }
  // What the entropy counts in the micro-batches of a step.
  [[nodiscard]] double applied() const;
  [[nodiscard]] double coef() const { return coef_; }
  void add(const ActingEntropy& micro_batch);
  // After the last micro-batch of a step.
  void end_step();

  // Of a checkpoint. Where the weight does not follow the entropy any more, the config's counts.
  [[nodiscard]] nlohmann::ordered_json state() const;
  void restore(const nlohmann::ordered_json& state);

 private:
  std::optional<config::AdaptiveEntropy> adaptive_;
  double coef_;
  std::optional<double> last_;  // the mean entropy of the step before
  ActingEntropy step_;
};

}  // namespace spillway::train
