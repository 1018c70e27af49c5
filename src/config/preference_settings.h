// Preference training and reward models, resolved: which objective, and what is made small.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/reference_sync.h"

namespace spillway::config {

// The objectives of preference training.
enum class PreferenceKind { kDpo, kKto, kOrpo, kCpo, kReward, kSteps };
// The losses that compare completions, by TRL's names; which are whose the table in resolve_preference.cc says.
enum class PreferenceLoss {
  kSigmoid,
  kHinge,
  kIpo,
  kExoPair,
  kNcaPair,
  kRobust,
  kBcoPair,
  kSppoHard,
  kAot,
  kAotUnpaired,
  kApoZero,
  kApoDown,
  kDiscopop,
  kSft,
  kSigmoidNorm,
  kSimpo,
  kKto,
  kApoZeroUnpaired,
  kOddsRatio,
  kBradleyTerry,
  kStepLabels,
};
// Returns true if the model's head becomes a score.
[[nodiscard]] inline bool trains_score(PreferenceKind kind) {
  return kind == PreferenceKind::kReward || kind == PreferenceKind::kSteps;
}
// As keys name it; empty for a loss that is the only one of its objective.
[[nodiscard]] std::string_view name_of(PreferenceLoss loss);
enum class FDivergence { kReverseKl, kForwardKl, kJs, kAlpha };

// A term of a loss: weight times the mean over the pairs.
struct WeightedLoss {
  PreferenceLoss loss = PreferenceLoss::kSigmoid;
  double weight = 1;
};

#include "config/keys/settings_begin.inc"
struct PreferenceKeys {
#include "config/keys/preferences.def"
};
#include "config/keys/end.inc"

// Settings of preference training and reward models. Members have the names of TRL's arguments, where their meanings
// are told.
struct PreferenceSettings : PreferenceKeys {
  PreferenceKind kind = PreferenceKind::kDpo;
  std::string name = "dpo";  // as the config says it
  std::vector<WeightedLoss> losses;
  double beta = 0.1;
  double center_rewards_coefficient = 0;  // of reward models; 0: none

  std::string ref_model;  // a folder; empty: the model in training, as it is before the first step
  bool precompute_ref_log_probs = false;
  std::optional<ReferenceSync> sync;
};

}  // namespace spillway::config
