#include "plan/search.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "base/index.h"
#include "plan/plan_search.h"

namespace spillway {
namespace {

// Looking at candidates may cost as much as scheduling this many operations, but no more than so many candidates;
// packing and simulating one costs twice as much again.
constexpr int64_t kOperationsToSchedule = 750'000, kMaxWork = 600;
// The work of a search: one of so many equal parts of that, but at least so many candidates.
struct WorkShare {
  int64_t parts, least;
};
constexpr WorkShare work_share_of(SearchEffort effort) {
  if (effort == SearchEffort::kFull) return {1, 12};
  return effort == SearchEffort::kQuick ? WorkShare{3, 16} : WorkShare{16, 6};
}
// The shares for looking at candidates that spread weights, and at those that alternate.
constexpr int64_t kSpreadShare = 4, kAlternateShare = 8;
// The factor by which a plan that cannot be faster takes less of the other tiers if it is timed all the same.
constexpr double kLeaner = 0.9;
// The slack for what lanes that lose speed to each other make of a lower bound.
constexpr double kBoundSlack = 0.999;
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
      proposals_(candidates, budget, policy),
      effort_(effort),
      blocks_(builder_.graph().blocks.size()),
      settings_(proposals_.saved_settings()) {}

// Transfers that run ahead can hold more than blocks save: plans of all settings then come equally near to fitting, and
// only this makes them differ.
void PlanSearch::tighten(Overlap overlap) {
  Choices tighter = nearest_;
  tighter.overlap = overlap;
  (void)consider(tighter);
  for (const Saved& setting : settings_) {
    for (size_t block = 0; block < blocks_; ++block) tighter.saved[block] = proposals_.followed(block, setting);
    (void)consider(tighter);
  }
}

// Keeping values never makes an operation run that would not run otherwise; only updates may leave the device.
bool PlanSearch::begin() {
  const Mixture mixture = proposals_.nothing_moved();
  if (!consider(mixture, 0) || proposals_.may_update_on_host()) return false;
  const LaneWork work = candidates_.scheduled(proposals_.choices_of(mixture, 0)).work;
  double computing = 0;
  for (size_t section = 0; section < work.size(); ++section) {
    const int64_t runs = runs_per_step(builder_.graph().sections[section].repeats, candidates_.accumulation());
    computing += nth(work[section], Lane::kCompute) * static_cast<double>(runs);
  }
  constexpr double kRounding = 1e-9;
  return is_fastest_ = best_.seconds <= computing * (1 + kRounding);
}

void PlanSearch::climb() {
  std::vector<Proposal> all = proposals_.all(settings_);
  // A quick search has no time for plans that seem not to fit where others do.
  const auto seems_to_fit = [](const Proposal& proposal) { return proposal.distance == 0; };
  const bool together = effort_ == SearchEffort::kQuick && std::any_of(all.begin(), all.end(), seems_to_fit);
  const auto spread = std::stable_partition(
      all.begin(), all.end(), [&](const Proposal& proposal) { return together || !proposal.mixture.spreads_homes(); });
  std::vector<Proposal> spread_proposals(spread, all.end());
  all.erase(spread, all.end());
  allow_work(1);
  look_at(std::move(all));
  if (found_) refine(false);
  if (!found_ || effort_ == SearchEffort::kFull) change_blocks();
  for (const Overlap overlap : {Overlap::kNarrow, Overlap::kSynchronous}) {
    if (!found_) tighten(overlap);
  }
  climbed_seconds_ = found_ ? best_.seconds : std::numeric_limits<double>::infinity();
  allow_work(kSpreadShare);
  look_at(std::move(spread_proposals));
  if (const int64_t distance = min_distance_; !found_) {
    look_far();
    if (!found_ && min_distance_ < distance) change_blocks();
  }
  allow_work(kAlternateShare);
  if (found_) look_at(proposals_.alternations(best_.seconds));
}

Found PlanSearch::finish(std::span<const Choices> starts) {
  if (is_fastest_) return packed_well();
  for (const Choices& start : starts) (void)consider(start);
  if (found_) refine_all();
  if (found_ && best_.seconds < climbed_seconds_ && effort_ == SearchEffort::kFull) change_blocks();
  if (found_ && effort_ != SearchEffort::kCoarse) break_ties(starts);
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

// A quick search packs so few of the plans that it schedules that this costs more than it saves.
void PlanSearch::count_waiting(const Choices& choices, Estimate& estimate) {
  if (effort_ != SearchEffort::kQuick && found_ && !is_too_slow(estimate.seconds))
    estimate.seconds = std::max(estimate.seconds, kBoundSlack * candidates_.seconds_unpacked(choices));
}

bool PlanSearch::may_be_leaner(const Estimate& estimate) const {
  if (effort_ == SearchEffort::kCoarse || fastest_seconds_ || !found_) return false;
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
bool PlanSearch::consider(const Choices& choices, double slack) {
  Estimate estimate = candidates_.scheduled(choices);
  PackEffort effort = PackEffort::kQuick;
  const int64_t distance = distance_to_fitting(estimate);
  considered_.reset();
  if (missing(estimate) == 0) count_waiting(choices, estimate);
  if (missing(estimate) == 0 && !is_too_slow(estimate.seconds / slack)) {
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
  const bool is_outer_near = effort_ == SearchEffort::kFull && nth(mixture.homes, Role::kOuter) == Tier::kDevice;
  const bool fits = consider(proposals_.choices_of(mixture, first), is_outer_near ? kNearSlack : 1);
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
  const int64_t work = std::min(kMaxWork, kOperationsToSchedule / (builder_.scheduling_work() + 1)) / share;
  const auto [parts, least] = work_share_of(effort_);
  work_limit_ = work_done() + std::max(least, work / parts);
  patient_limit_ = effort_ == SearchEffort::kQuick ? std::max(work_limit_, work_done() + work) : work_limit_;
}

void PlanSearch::allow_tie_work() {
  constexpr int64_t kTieShare = 32, kMinTieWork = 4;
  work_limit_ =
      work_done() + std::max(kMinTieWork, kOperationsToSchedule / (builder_.scheduling_work() + 1) / kTieShare);
}

// Takes the candidates that seem to fit, the fastest first; then those that seem to be nearest to it.
void PlanSearch::look_at(std::vector<Proposal> proposals) {
  std::stable_sort(proposals.begin(), proposals.end(), [](const Proposal& a, const Proposal& b) {
    return std::tie(a.distance, a.rank) < std::tie(b.distance, b.rank);
  });
  for (const Proposal& proposal : proposals) {
    if (work_done() >= (found_ ? work_limit_ : patient_limit_)) break;
    if (found_ && proposal.seconds >= best_.seconds * kSecondSlack) continue;
    if (proposal.first == 0 || proposal.mixture.alternates) {
      const bool fits = consider(proposal.mixture, proposal.first);
      Mixture less_ahead = proposal.mixture;
      less_ahead.overlap = Overlap::kWide;
      if (!fits && !proposal.mixture.alternates) (void)consider(less_ahead, 0);
    } else {
      consider_mixture(proposal.mixture, proposal.first);
    }
  }
}

// Candidates let transfers run far ahead. Where one weight is a large part of the device, those under way take more
// than streaming saves, so that no candidate which streams is the nearest to fitting, the one that tighten() begins
// with.
void PlanSearch::look_far() {
  for (const Overlap overlap : {Overlap::kNarrow, Overlap::kSynchronous}) {
    for (const Homes& homes : proposals_.farthest()) {
      const auto fits = [&](const Saved& setting) {
        return consider(Mixture{.head = setting, .tail = setting, .homes = homes, .moves = {}, .overlap = overlap}, 0);
      };
      if (fits(settings_.back())) {
        (void)std::find_if(settings_.begin(), settings_.end(), fits);
        return;
      }
    }
  }
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
  if (effort_ != SearchEffort::kFull) return quick;
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
