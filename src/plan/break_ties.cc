// The end of the search: of the plans that are equally fast, the one that takes least of the other tiers.
#include <algorithm>
#include <vector>

#include "base/index.h"
#include "plan/plan_search.h"

namespace spillway {

// The saved activations of as many blocks as fit stay on the device, of the last ones, whose backward pass comes first.
void PlanSearch::settle_saved() {
  const Choices start = best_.choices;
  std::vector<BlockChoice> kept = start.blocks;
  std::vector<size_t> away;
  for (size_t block = 0; block < blocks_; ++block) {
    Saved& saved = kept[block].saved;
    for (Treatment& treatment : saved)
      if (treatment == Treatment::kHost || treatment == Treatment::kDisk) treatment = Treatment::kKeep;
    saved = ideas_.followed(block, saved);
    if (kept[block] != start.blocks[block]) away.push_back(block);
  }
  keep_away_least(away.size(), [&](size_t count) {
    Choices choices = start;
    for (size_t i = count; i < away.size(); ++i) choices.blocks[away[i]] = kept[away[i]];
    return choices;
  });
}

void PlanSearch::break_ties(std::span<const Choices> starts) {
  fastest_seconds_ = best_.seconds;
  for (const Best& plan : timed_)
    if (is_better(plan)) best_ = plan;
  for (const Choices& start : starts) (void)consider(start);
  if (best_.bytes_away == 0) return;
  constexpr int64_t kTieShare = 16;
  allow_work(kTieShare);
  settle_weights(Tier::kDevice, true);
  settle_saved();
  if (ideas_.may_move_state() && best_.choices.optimizer_state != Tier::kDevice) settle_state(Tier::kDevice);
  settle_tables();
}

}  // namespace spillway
