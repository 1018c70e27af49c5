// The changes of the best plan as a whole: what comes nearer to the device, and in which proportion.
#include <algorithm>
#include <array>
#include <bit>

#include "base/index.h"
#include "plan/plan_search.h"

namespace spillway {
namespace {

// The shares of the work for trading weights for activations, and an eighth each: the proportion of candidates that
// alternate, transfers that run less far ahead, and updates.
constexpr int64_t kTradeShare = 6, kBalanceShare = 8, kHoldShare = 8, kUpdateShare = 8;

}  // namespace

template <typename ImprovesWith>
void PlanSearch::step_towards_best(size_t best, size_t most, const ImprovesWith& improves_with) {
  for (size_t step = std::bit_floor(std::max<size_t>(1, most / 8)); step > 0; step /= 2) {
    while (best + step <= most && improves_with(best + step)) best += step;
    while (best >= step && improves_with(best - step)) best -= step;
  }
}

void PlanSearch::consider_again(const Mixture& mixture) {
  if (mixture.is_uniform() || mixture.alternates) {
    (void)consider(mixture, best_.first);
  } else {
    consider_mixture(mixture, std::clamp<size_t>(best_.first, 1, blocks_ - 1));
  }
}

void PlanSearch::hold_less() {
  allow_work(kHoldShare);
  Mixture mixture = *best_.mixture;
  mixture.overlap = Overlap::kWide;
  consider_again(mixture);
}

void PlanSearch::trade(RoleSet roles, Tier tier) {
  step_towards_best(best_.mixture->moved(roles, tier), blocks_, [&](size_t count) {
    Mixture mixture = *best_.mixture;
    const double before = best_.seconds;
    mixture.set_moved(roles, tier, count);
    if (work_done() < work_limit_) consider_again(mixture);
    return best_.seconds < before;
  });
}

void PlanSearch::balance() {
  allow_work(kBalanceShare);
  step_towards_best(best_.first, blocks_, [&](size_t first) {
    const double before = best_.seconds;
    if (work_done() < work_limit_) (void)consider(Mixture(*best_.mixture), first);
    return best_.seconds < before;
  });
}

// Searches for the least number of items farther away with which a plan fits. While ties are broken, most of what there
// is room for has come back already: if one more does not fit, none does.
void PlanSearch::keep_away_least(size_t count, const std::function<Choices(size_t away)>& choices_with) {
  size_t too_few = 0, enough = count;
  const auto may_look = [&] { return !fastest_seconds_ || work_done() < work_limit_; };
  if (count > 0 && fastest_seconds_ && (!may_look() || !consider(choices_with(--enough)))) return;
  while (too_few < enough && may_look()) {
    const size_t middle = too_few + (enough - too_few) / 2;
    if (consider(choices_with(middle))) {
      enough = middle;
    } else {
      too_few = middle + 1;
    }
  }
}

void PlanSearch::refine_groups(RoleSet roles, Tier tier, Subset::Where where) {
  const Choices start = best_.choices;
  std::vector<BlockId> away;
  for (BlockId block = 0; block < static_cast<BlockId>(blocks_); ++block)
    if (proposals_.roles().is_farther(start, roles, block, tier)) away.push_back(block);
  keep_away_least(away.size(), [&](size_t count) {
    Choices choices = start;
    for (size_t i = 0; i < away.size(); ++i)
      if (!Subset{where, count}.has(i, away.size())) proposals_.roles().bring(choices, roles, away[i], tier);
    return choices;
  });
}

// Moves tables back to the device, if they fit there and that saves transfers.
void PlanSearch::refine_tables() {
  Choices choices = best_.choices;
  proposals_.roles().bring(choices, {Role::kTables}, kNone, Tier::kDevice);
  if (choices.groups != best_.choices.groups) (void)consider(choices);
}

// While the host updates some blocks from its memory, the state of others may come to the device and go back: both at
// once are faster than either, unless one processor computes on both sides.
void PlanSearch::share_updates() {
  if (builder_.costs().machine().device == DeviceKind::kCpu) return;
  const Choices start = best_.choices;
  std::vector<GroupId> away;  // in the order of their blocks
  size_t best = 0;
  for (BlockId block = 0; block < static_cast<BlockId>(blocks_); ++block) {
    for (const GroupId group : proposals_.roles().groups(Role::kState, block)) {
      if (nth(start.groups, group).home != Tier::kHost) continue;
      away.push_back(group);
      best += nth(start.groups, group).site == Tier::kDevice ? 1 : 0;
    }
  }
  if (away.empty()) return;
  allow_work(kUpdateShare);
  const auto improves_with = [&](size_t count) {
    Choices choices = start;
    const Subset on_device{Subset::Where::kSpread, count};
    for (size_t i = 0; i < away.size(); ++i)
      nth(choices.groups, away[i]).site = on_device.has(i, away.size()) ? Tier::kDevice : Tier::kHost;
    const double before = best_.seconds;
    if (work_done() < work_limit_) (void)consider(choices);
    return best_.seconds < before;
  };
  if (improves_with(away.size())) best = away.size();
  step_towards_best(best, away.size(), improves_with);
}

void PlanSearch::refine(bool is_even) {
  if (best_.mixture && best_.mixture->overlap == Overlap::kBlock) hold_less();
  if (is_even && best_.mixture && best_.mixture->alternates) balance();
  if (is_even && best_.mixture && blocks_ > 1) {
    allow_work(kTradeShare);
    const Homes homes = best_.mixture->homes;
    if (proposals_.with_weights_on_device(homes) != homes) trade(kBlockWeights, Tier::kDevice);
    if (proposals_.with_weights_on_disk(homes) != homes) trade(kBlockWeights, Tier::kDisk);
    if (proposals_.may_split_state(homes)) trade(kStates, Tier::kDisk);
  }
  for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
    // The first climb goes on from here; values that it leaves on the disk come into host memory in the end.
    if (!proposals_.has(tier) || (tier == Tier::kHost && !is_even)) continue;
    refine_groups(kBlockWeights, tier, is_even ? Subset::Where::kSpread : Subset::Where::kFirst);
    // The last blocks' state comes back: it is needed once per step, wherever its block is.
    refine_groups(kStates, tier, Subset::Where::kFirst);
  }
  refine_tables();
  share_updates();
}

// Forecasts do not include waiting, but compute waits for weights outside blocks that come with every micro-batch; and
// tables take host memory that others need there, too. Which plan is faster shows when all are refined.
void PlanSearch::refine_all() {
  const std::array<std::optional<Best>, 2> nearer = {nearer_head_, nearer_tables_};
  refine(true);
  if (effort_ != SearchEffort::kFull) return;
  Best fastest = best_;
  const std::array<bool, 2> is_there = {proposals_.roles().outside(fastest.choices, Role::kOuter) == Tier::kDevice,
                                        proposals_.roles().outside(fastest.choices, Role::kTables) == Tier::kDevice};
  for (size_t i = 0; i < nearer.size(); ++i) {
    if (is_there[i] || !nearer[i] || nearer[i]->seconds > kNearSlack * fastest.seconds) continue;
    best_ = *nearer[i];
    refine(true);
    if (best_.seconds < fastest.seconds) fastest = best_;
  }
  best_ = fastest;
}

}  // namespace spillway
