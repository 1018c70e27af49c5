// The end of the search: of the plans that are equally fast, the one that takes least of the other tiers.
#include <algorithm>
#include <vector>

#include "base/index.h"
#include "plan/plan_search.h"

namespace spillway {

// The saved activations of as many blocks as fit stay on the device, of the last ones, whose backward pass comes first.
void PlanSearch::refine_saved() {
  const Choices start = best_.choices;
  std::vector<Saved> kept = start.saved;
  std::vector<size_t> away;
  for (size_t block = 0; block < blocks_; ++block) {
    Saved& saved = kept[block];
    for (ActivationPolicy& activation_policy : saved)
      if (activation_policy == ActivationPolicy::kHost || activation_policy == ActivationPolicy::kDisk)
        activation_policy = ActivationPolicy::kKeep;
    saved = proposals_.followed(block, saved);
    if (kept[block] != start.saved[block]) away.push_back(block);
  }
  keep_away_least(away.size(), [&](size_t count) {
    Choices choices = start;
    for (size_t i = count; i < away.size(); ++i) choices.saved[away[i]] = kept[away[i]];
    return choices;
  });
}

void PlanSearch::break_ties(std::span<const Choices> starts) {
  fastest_seconds_ = best_.seconds;
  for (const Best& plan : timed_)
    if (is_better(plan)) best_ = plan;
  for (const Choices& start : starts) (void)consider(start);
  if (best_.bytes_away == 0) return;
  allow_tie_work();
  refine_groups(kBlockWeights, Tier::kDevice, Subset::Where::kSpread);
  refine_saved();
  refine_groups(kStates, Tier::kDevice, Subset::Where::kFirst);
  refine_tables();
}

}  // namespace spillway
