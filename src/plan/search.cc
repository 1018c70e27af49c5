#include "plan/search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

#include "base/index.h"
#include "plan/plan_search.h"

namespace spillway {
namespace {

// Looking at candidates may cost as much as scheduling this many operations, but neither less nor more than so many
// candidates; packing and simulating one costs twice as much again. A sketch gets an eighth.
constexpr int64_t kOperationsToSchedule = 1'000'000, kMinWork = 16, kMaxWork = 600, kSketchShare = 8;
// The shares for trading weights for activations and for looking at candidates that spread weights: a sixth and a
// quarter.
constexpr int64_t kTradeShare = 6, kSpreadShare = 4;
// An eighth each: candidates that alternate, the proportion of those, transfers that run less far ahead, and updates.
constexpr int64_t kAlternateShare = 8, kBalanceShare = 8, kHoldShare = 8, kUpdateShare = 8;
// The factor by which a plan that cannot be faster takes less of the other tiers if it is timed all the same.
constexpr double kLeaner = 0.9;
// The factor by which forecasts of seconds may be wrong.
constexpr double kSecondSlack = 1.25;

bool is_as_fast(double seconds, double fastest_seconds) { return seconds <= fastest_seconds * (1 + kAsFast); }

}  // namespace

bool is_preferred(const PlanCost& plan, const PlanCost& other, double fastest_seconds) {
  if (!is_as_fast(plan.seconds, fastest_seconds)) return false;
  return !is_as_fast(other.seconds, fastest_seconds) ||
         std::tie(plan.bytes_away, plan.seconds) < std::tie(other.bytes_away, other.seconds);
}

PlanSearch::PlanSearch(PlanCandidates& candidates, const Budget& budget, const Policy& policy, SearchEffort effort)
    : candidates_(candidates),
      builder_(candidates.builder()),
      budget_(budget),
      ideas_(candidates, budget, policy),
      effort_(effort),
      blocks_(builder_.graph().blocks.size()),
      settings_(ideas_.saved_settings()) {}

// Transfers that run ahead can hold more than blocks save: plans of all settings then come equally near to fitting, and
// only this makes them differ.
void PlanSearch::tighten(Overlap overlap) {
  Choices tighter = nearest_;
  tighter.overlap = overlap;
  (void)consider(tighter);
  for (const Saved& setting : settings_) {
    for (size_t block = 0; block < blocks_; ++block) tighter.saved[block] = ideas_.followed(block, setting);
    (void)consider(tighter);
  }
}

// Keeping values never makes an operation run that would not run otherwise; only updates may leave the device.
bool PlanSearch::begin() {
  const Mixture mixture = ideas_.nothing_moved();
  if (!consider(mixture, 0) || ideas_.may_update_on_host()) return false;
  const LaneWork work = candidates_.scheduled(ideas_.choices_of(mixture, 0)).work;
  double computing = 0;
  for (size_t section = 0; section < work.size(); ++section) {
    const int64_t runs = runs_per_step(builder_.graph().sections[section].repeats, candidates_.accumulation());
    computing += nth(work[section], Lane::kCompute) * static_cast<double>(runs);
  }
  constexpr double kRounding = 1e-9;
  return is_fastest_ = best_.seconds <= computing * (1 + kRounding);
}

void PlanSearch::climb() {
  std::vector<Idea> all = ideas_.all(settings_);
  const auto spread =
      std::stable_partition(all.begin(), all.end(), [](const Idea& idea) { return !idea.mixture.spreads_homes(); });
  std::vector<Idea> spread_ideas(spread, all.end());
  all.erase(spread, all.end());
  allow_work(1);
  look_at(std::move(all));
  if (found_) settle(false);
  if (!found_ || effort_ == SearchEffort::kFull) change_blocks();
  for (const Overlap overlap : {Overlap::kNarrow, Overlap::kSynchronous}) {
    if (!found_) tighten(overlap);
  }
  climbed_seconds_ = found_ ? best_.seconds : std::numeric_limits<double>::infinity();
  allow_work(kSpreadShare);
  look_at(std::move(spread_ideas));
  allow_work(kAlternateShare);
  if (found_) look_at(ideas_.alternations(best_.seconds));
}

Found PlanSearch::finish(std::span<const Choices> starts) {
  if (is_fastest_) return packed_well();
  for (const Choices& start : starts) (void)consider(start);
  if (found_) settle_all();
  if (found_ && best_.seconds < climbed_seconds_ && effort_ == SearchEffort::kFull) change_blocks();
  if (found_ && effort_ == SearchEffort::kFull) break_ties(starts);
  return packed_well();
}

int64_t PlanSearch::missing(const Estimate& estimate) const { return missing_bytes(estimate.bytes, budget_); }

// The time of packing grows with the square of the buffers; this limits all of it together to below a second.
bool PlanSearch::may_pack_thoroughly(const Estimate& estimate) {
  pack_work_ -= estimate.buffers * estimate.buffers;
  return pack_work_ >= 0;
}

bool PlanSearch::is_better(const Best& plan) const {
  if (!found_) return true;
  if (!fastest_seconds_) return plan.seconds < best_.seconds;
  return is_preferred({plan.seconds, plan.bytes_away}, {best_.seconds, best_.bytes_away}, *fastest_seconds_);
}

bool PlanSearch::is_too_slow(double least_seconds) const {
  return fastest_seconds_ ? !is_as_fast(least_seconds, *fastest_seconds_) : found_ && least_seconds >= best_.seconds;
}

bool PlanSearch::may_be_leaner(const Estimate& estimate) const {
  if (effort_ == SearchEffort::kSketch || fastest_seconds_ || !found_) return false;
  return is_as_fast(estimate.seconds, best_.seconds) &&
         static_cast<double>(estimate.bytes_away()) < kLeaner * static_cast<double>(leanest_.bytes_away);
}

// Raises the limit of work by its cost, so that other candidates are looked at as without it.
void PlanSearch::time_leaner(const Choices& choices) {
  const int64_t work_before = work_done();
  Estimate estimate = candidates_.packed(choices, PackEffort::kQuick);
  if (missing(estimate) == 0) {
    estimate = candidates_.predicted(choices, PackEffort::kQuick);
    note_timed({choices, PackEffort::kQuick, estimate.seconds, estimate.bytes_away(), {}, 0});
  }
  work_limit_ += work_done() - work_before;
}

void PlanSearch::note_timed(Best plan) {
  const PlanCost cost{plan.seconds, plan.bytes_away};
  const double fastest = std::min(found_ ? best_.seconds : plan.seconds, plan.seconds);
  if (is_preferred(cost, leanest_, fastest)) leanest_ = cost;
  timed_.push_back(std::move(plan));
}

// The live bytes show most plans that cannot fit before they are packed.
bool PlanSearch::consider(const Choices& choices) {
  Estimate estimate = candidates_.scheduled(choices);
  PackEffort effort = PackEffort::kQuick;
  const int64_t distance = distance_to_fitting(estimate);
  considered_.reset();
  if (missing(estimate) == 0 && !is_too_slow(estimate.seconds)) {
    estimate = candidates_.packed(choices, effort);
    if (missing(estimate) > 0 && may_pack_thoroughly(estimate)) {
      effort = PackEffort::kThorough;
      estimate = candidates_.packed(choices, effort);
    }
    if (missing(estimate) == 0) {
      estimate = candidates_.predicted(choices, effort);
      considered_ = {choices, effort, estimate.seconds, estimate.bytes_away(), best_.mixture, best_.first};
      note_timed(*considered_);
    }
  } else if (missing(estimate) == 0 && may_be_leaner(estimate)) {
    time_leaner(choices);
  }
  const bool fits = missing(estimate) == 0 && !(fastest_seconds_ && is_too_slow(estimate.seconds));
  if (fits) {
    if (considered_ && is_better(*considered_)) best_ = *considered_;
    found_ = true;
  } else if (!found_ && distance < min_distance_) {
    min_distance_ = distance;
    nearest_ = choices;
  }
  return fits;
}

int64_t PlanSearch::work_done() const { return candidates_.scheduled_count() + 2 * candidates_.packed_count(); }

bool PlanSearch::consider(const Mixture& mixture, size_t first) {
  const double before = found_ ? best_.seconds : std::numeric_limits<double>::infinity();
  const bool fits = consider(ideas_.choices_of(mixture, first));
  if (!considered_) return fits;
  considered_->mixture = mixture;
  considered_->first = first;
  if (considered_->seconds < before) best_ = *considered_;
  if (nth(mixture.homes, Role::kOuter) == Tier::kDevice) {
    std::optional<Best>& nearer = nth(mixture.homes, Role::kTables) == Tier::kDevice ? nearer_tables_ : nearer_head_;
    if (!nearer || considered_->seconds < nearer->seconds) nearer = considered_;
  }
  return fits;
}

// Tries numbers in growing strides, until one number of blocks fits and one does not; then by bisection.
void PlanSearch::consider_mixture(const Mixture& mixture, size_t first) {
  size_t too_few = 0, enough = blocks_;
  for (size_t stride = 1; first > too_few && first < enough && work_done() < work_limit_; stride *= 2) {
    if (consider(mixture, first)) {
      enough = first;
      first -= std::min(first, stride);
    } else {
      too_few = first;
      first += stride;
    }
  }
  while (enough - too_few > 1 && work_done() < work_limit_) {
    const size_t middle = too_few + (enough - too_few) / 2;
    (consider(mixture, middle) ? enough : too_few) = middle;
  }
}

void PlanSearch::allow_work(int64_t share) {
  const int64_t work = std::min(kMaxWork, kOperationsToSchedule / (std::ssize(builder_.graph().ops) + 1)) / share;
  work_limit_ = work_done() + std::max(kMinWork, effort_ == SearchEffort::kFull ? work : work / kSketchShare);
}

void PlanSearch::allow_tie_work() {
  constexpr int64_t kTieShare = 32, kMinTieWork = 4;
  work_limit_ =
      work_done() + std::max(kMinTieWork, kOperationsToSchedule / (std::ssize(builder_.graph().ops) + 1) / kTieShare);
}

// Takes the candidates that seem to fit, the fastest first; then those that seem to be nearest to it.
void PlanSearch::look_at(std::vector<Idea> ideas) {
  std::stable_sort(ideas.begin(), ideas.end(), [](const Idea& a, const Idea& b) {
    return std::tie(a.distance, a.rank) < std::tie(b.distance, b.rank);
  });
  for (const Idea& idea : ideas) {
    if (work_done() >= work_limit_) break;
    if (found_ && idea.seconds >= best_.seconds * kSecondSlack) continue;
    if (idea.first == 0 || idea.mixture.alternates) {
      const bool fits = consider(idea.mixture, idea.first);
      Mixture less_ahead = idea.mixture;
      less_ahead.overlap = Overlap::kWide;
      if (!fits && !idea.mixture.alternates) (void)consider(less_ahead, 0);
    } else {
      consider_mixture(idea.mixture, idea.first);
    }
  }
}

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

void PlanSearch::settle_groups(RoleSet roles, Tier tier, Subset::Where where) {
  const Choices start = best_.choices;
  std::vector<BlockId> away;
  for (BlockId block = 0; block < static_cast<BlockId>(blocks_); ++block)
    if (ideas_.roles().is_farther(start, roles, block, tier)) away.push_back(block);
  keep_away_least(away.size(), [&](size_t count) {
    Choices choices = start;
    for (size_t i = 0; i < away.size(); ++i)
      if (!Subset{where, count}.has(i, away.size())) ideas_.roles().bring(choices, roles, away[i], tier);
    return choices;
  });
}

// Moves tables back to the device, if they fit there and that saves transfers.
void PlanSearch::settle_tables() {
  Choices choices = best_.choices;
  ideas_.roles().bring(choices, {Role::kTables}, kNone, Tier::kDevice);
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
    for (const GroupId group : ideas_.roles().groups(Role::kState, block)) {
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

void PlanSearch::settle(bool is_even) {
  if (best_.mixture && best_.mixture->overlap == Overlap::kBlock) hold_less();
  if (is_even && best_.mixture && best_.mixture->alternates) balance();
  if (is_even && best_.mixture && blocks_ > 1) {
    allow_work(kTradeShare);
    const Homes homes = best_.mixture->homes;
    if (ideas_.with_weights_on_device(homes) != homes) trade(kBlockWeights, Tier::kDevice);
    if (ideas_.with_weights_on_disk(homes) != homes) trade(kBlockWeights, Tier::kDisk);
    if (ideas_.may_split_state(homes)) trade(kStates, Tier::kDisk);
  }
  for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
    // The first climb goes on from here; values that it leaves on the disk come into host memory in the end.
    if (!ideas_.has(tier) || (tier == Tier::kHost && !is_even)) continue;
    settle_groups(kBlockWeights, tier, is_even ? Subset::Where::kSpread : Subset::Where::kFirst);
    // The last blocks' state comes back: it is needed once per step, wherever its block is.
    settle_groups(kStates, tier, Subset::Where::kFirst);
  }
  settle_tables();
  share_updates();
}

// Forecasts do not include waiting, but compute waits for weights outside blocks that come with every micro-batch; and
// tables take host memory that others need there, too. Which plan is faster shows when all are settled.
void PlanSearch::settle_all() {
  constexpr double kSlack = 1.05;  // the gain that settling may bring
  const std::array<std::optional<Best>, 2> nearer = {nearer_head_, nearer_tables_};
  settle(true);
  if (effort_ == SearchEffort::kSketch) return;
  Best fastest = best_;
  const std::array<bool, 2> is_there = {ideas_.roles().outside(fastest.choices, Role::kOuter) == Tier::kDevice,
                                        ideas_.roles().outside(fastest.choices, Role::kTables) == Tier::kDevice};
  for (size_t i = 0; i < nearer.size(); ++i) {
    if (is_there[i] || !nearer[i] || nearer[i]->seconds > kSlack * fastest.seconds) continue;
    best_ = *nearer[i];
    settle(true);
    if (best_.seconds < fastest.seconds) fastest = best_;
  }
  best_ = fastest;
}

// Compares live bytes, before packing, and is below zero if only the packing is in the way: so the way down to the
// least plan is the same from every budget. A plan that overfills another tier is farther than any that does not.
int64_t PlanSearch::distance_to_fitting(const Estimate& estimate) const {
  constexpr int64_t kFar = int64_t{1} << 50;
  const int64_t device = estimate.device_bytes() - budget_.device.value_or(0);
  int64_t others = 0;
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    const std::optional<int64_t> budget = budget_.of(tier);
    const int64_t bytes = nth(estimate.bytes, tier);
    if (budget && bytes > *budget) others += kFar + bytes - *budget;
  }
  return others > 0 ? others + std::max<int64_t>(0, device) : device;
}

// Packs the result well, since the search packs quickly.
Found PlanSearch::packed_well() {
  const Choices& choices = found_ ? best_.choices : nearest_;
  const auto packed = [&](PackEffort effort) -> Found {
    const Estimate estimate = candidates_.predicted(choices, effort);
    return {choices, effort, estimate, missing(estimate) == 0, fastest_seconds_.value_or(estimate.seconds)};
  };
  Found quick = packed(best_.effort);
  if (effort_ == SearchEffort::kSketch) return quick;
  Found thorough = packed(PackEffort::kThorough);
  const bool is_better = thorough.estimate.device_bytes() < quick.estimate.device_bytes() &&
                         missing(thorough.estimate) <= missing(quick.estimate) &&
                         thorough.estimate.seconds <= quick.estimate.seconds;
  return is_better ? thorough : quick;
}

Found search_plan(PlanCandidates& candidates, const Budget& budget, const Policy& policy, SearchEffort effort,
                  std::span<const Choices> starts) {
  PlanSearch search(candidates, budget, policy, effort);
  if (!search.begin()) search.climb();
  return search.finish(starts);
}

}  // namespace spillway
