#include "objectives/preference.h"

#include "base/error.h"
#include "objectives/cpo/cpo.h"
#include "objectives/dpo/dpo.h"
#include "objectives/kto/kto.h"
#include "objectives/orpo/orpo.h"
#include "objectives/reward/reward.h"
#include "objectives/steps/steps.h"

namespace spillway::train {

ObjectivePtr preference_objective(const config::PreferenceSettings& settings, int64_t sequence_len,
                                  std::optional<int32_t> padding) {
  switch (settings.kind) {
    case config::PreferenceKind::kDpo:
      return dpo_objective(settings);
    case config::PreferenceKind::kKto:
      return kto_objective(settings, sequence_len);
    case config::PreferenceKind::kOrpo:
      return orpo_objective(settings);
    case config::PreferenceKind::kCpo:
      return cpo_objective(settings);
    case config::PreferenceKind::kReward:
      return reward_objective(settings, padding);
    case config::PreferenceKind::kSteps:
      return steps_objective(settings);
  }
  report_bug(__FILE__, __LINE__, "kind", settings.name);
}

}  // namespace spillway::train
