#include "plan/search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

namespace spillway {
namespace {

constexpr Treatment kKept = Treatment::kKeep, kRecomputed = Treatment::kRecompute;

// Looking at ideas may cost as much as scheduling this many operations, but not less than so many candidates; packing
// and simulating one costs twice as much again. A sketch gets an eighth.
constexpr int64_t kOperationsToSchedule = 1'000'000, kMinWork = 16, kSketchShare = 8;
// What trading weights for activations, and looking at ideas that spread weights, may cost: a quarter of that each.
constexpr int64_t kTradeShare = 4, kSpreadShare = 4;
// How far forecasts are believed: of bytes, and of seconds.
constexpr double kByteSlack = 1.05, kSecondSlack = 1.25;
// Of what all lanes do, this share counts as waiting where forecasts are as good as each other.
constexpr double kWaitingShare = 0.02;

void keep_weights(BlockChoice& block, const Policy& policy) {
  if (!policy.frozen_weights) block.frozen_weights = Tier::kDevice;
  if (!policy.trainable_weights) block.trainable_weights = Tier::kDevice;
}

}  // namespace

PlanSearch::PlanSearch(PlanCandidates& candidates, const Budget& budget, const Policy& policy, SearchEffort effort)
    : candidates_(candidates),
      builder_(candidates.builder()),
      budget_(budget),
      policy_(policy),
      effort_(effort),
      blocks_(builder_.graph().blocks.size()) {}

// A tier may be chosen where there is a budget for it and the lanes that lead there; what the user asked for by name is
// followed whatever the budget says.
bool PlanSearch::has(Tier tier) const {
  const auto rate = [&](Lane lane) {
    return builder_.costs().machine().link_bytes_per_second[static_cast<size_t>(lane)] > 0;
  };
  if (tier == Tier::kHost)
    return budget_.host.value_or(0) > 0 && rate(Lane::kHostToDevice) && rate(Lane::kDeviceToHost);
  if (tier == Tier::kDisk) return budget_.disk.value_or(0) > 0 && rate(Lane::kDiskRead) && rate(Lane::kDiskWrite);
  return true;
}

std::vector<Tier> PlanSearch::tiers(std::optional<Tier> fixed) const {
  if (fixed) return {*fixed};
  std::vector<Tier> result = {Tier::kDevice};
  if (has(Tier::kHost)) result.push_back(Tier::kHost);
  if (has(Tier::kDisk)) result.push_back(Tier::kDisk);
  return result;
}

// In the order of SavedGroup: boundary, attention, product, elementwise. From most device memory to least.
std::vector<PlanSearch::Saved> PlanSearch::saved_settings() const {
  std::vector<Saved> open = {{kKept, kKept, kKept, kKept},
                             {kKept, kKept, kKept, kRecomputed},
                             {kKept, kKept, kRecomputed, kRecomputed},
                             {kKept, kRecomputed, kRecomputed, kRecomputed}};
  for (const auto& [tier, away] :
       {std::pair{Tier::kHost, Treatment::kHost}, std::pair{Tier::kDisk, Treatment::kDisk}}) {
    if (!policy_.may_move_saved || !has(tier)) continue;
    open.push_back({kKept, kKept, away, kRecomputed});
    open.push_back({away, away, away, away});
    open.push_back({away, away, away, kRecomputed});
    open.push_back({away, away, kRecomputed, kRecomputed});
    open.push_back({away, kRecomputed, kRecomputed, kRecomputed});
  }
  std::vector<Saved> result;
  for (const Saved& setting : open) {
    const auto alike = [&](const Saved& other) { return are_alike(setting, other); };
    if (std::none_of(result.begin(), result.end(), alike)) result.push_back(setting);
  }
  return result;
}

PlanSearch::Saved PlanSearch::followed(size_t block, Saved setting) const {
  const SavedPolicy& fixed = policy_.saved_of(static_cast<BlockId>(block));
  for (size_t group = 0; group < kSavedGroups; ++group) setting[group] = fixed[group].value_or(setting[group]);
  return setting;
}

bool PlanSearch::are_alike(const Saved& setting, const Saved& other) const {
  for (size_t block = 0; block < blocks_; ++block) {
    if (followed(block, setting) != followed(block, other)) return false;
  }
  return true;
}

std::vector<PlanSearch::Homes> PlanSearch::home_settings() const {
  std::vector<Homes> result;
  for (const Tier state : tiers(policy_.optimizer_state)) {
    for (const Tier gradients : tiers(policy_.gradients)) {
      // Gradients leave the device after the state, which is larger and needed once per optimizer step, and to the same
      // place.
      if (!policy_.gradients && gradients != Tier::kDevice && gradients != state) continue;
      for (const Tier frozen : tiers(policy_.frozen_weights)) {
        for (const Tier trainable : tiers(policy_.trainable_weights)) {
          if (!policy_.frozen_weights && !policy_.trainable_weights && frozen != trainable) continue;
          for (const Tier outer : tiers(policy_.outer_weights)) {
            // Those outside blocks come late for all they save: they leave after the blocks', and to the same place.
            if (!policy_.outer_weights && outer != Tier::kDevice && outer != std::max(frozen, trainable)) continue;
            result.push_back({frozen, trainable, outer, gradients, state});
          }
        }
      }
    }
  }
  return result;
}

BlockChoice PlanSearch::block_of(const Saved& saved, const Homes& homes) {
  return {saved, homes.frozen_weights, homes.trainable_weights};
}

bool PlanSearch::is_spread(size_t block, size_t count, size_t blocks) {
  const auto before = [&](size_t b) { return (2 * b * count + blocks) / (2 * blocks); };
  return before(block) != before(block + 1);
}

Choices PlanSearch::choices_of(const Mixture& mixture, size_t first) const {
  Choices choices{.blocks = std::vector<BlockChoice>(blocks_, mixture.tail),
                  .outer_weights = mixture.homes.outer_weights,
                  .gradients = mixture.homes.gradients,
                  .optimizer_state = mixture.homes.optimizer_state,
                  .update_site = mixture.homes.optimizer_state == Tier::kHost ? Tier::kHost : Tier::kDevice,
                  .synchronous_activations = policy_.synchronous};
  std::fill_n(choices.blocks.begin(), first, mixture.head);
  for (size_t block = 0; block < blocks_; ++block) {
    choices.blocks[block].saved = followed(block, choices.blocks[block].saved);
    if (is_spread(block, mixture.resident, blocks_)) keep_weights(choices.blocks[block], policy_);
  }
  return choices;
}

int64_t PlanSearch::missing(const Estimate& estimate) const {
  int64_t sum = 0;
  for (size_t tier = 0; tier < kBudgetedTiers; ++tier) {
    if (const auto budget = budget_.of(static_cast<Tier>(tier)))
      sum += std::max<int64_t>(0, estimate.bytes[tier] - *budget);
  }
  return sum;
}

// Its time grows with the square of the buffers; all of it together stays below a second.
bool PlanSearch::may_pack_thoroughly(const Estimate& estimate) {
  pack_work_ -= estimate.buffers * estimate.buffers;
  return pack_work_ >= 0;
}

// The live bytes show most plans that cannot fit before they are packed.
bool PlanSearch::consider(const Choices& choices) {
  Estimate estimate = candidates_.scheduled(choices);
  PackEffort effort = PackEffort::kQuick;
  const int64_t distance = distance_to_fitting(estimate);
  if (missing(estimate) == 0 && !(found_ && estimate.seconds >= best_.seconds)) {
    estimate = candidates_.packed(choices, effort);
    if (missing(estimate) > 0 && may_pack_thoroughly(estimate)) {
      effort = PackEffort::kThorough;
      estimate = candidates_.packed(choices, effort);
    }
  }
  const bool fits = missing(estimate) == 0;
  if (fits) {
    if (!found_ || estimate.seconds < best_.seconds) best_ = {choices, effort, estimate.seconds};
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
  const bool fits = consider(choices_of(mixture, first));
  if (found_ && best_.seconds < before) best_mixture_ = mixture, best_first_ = first;
  return fits;
}

// In growing strides, until one number of blocks fits and one does not; then by bisection.
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

double PlanSearch::rank_of(const Forecast& forecast) const {
  return builder_.min_seconds(forecast.work, candidates_.accumulation()) + kWaitingShare * forecast.lane_seconds();
}

PlanSearch::Idea PlanSearch::idea(const Mixture& mixture, size_t first, const Forecast& forecast) const {
  return {.mixture = mixture,
          .first = first,
          .seconds = builder_.min_seconds(forecast.work, candidates_.accumulation()),
          .distance = forecast.fits(budget_, kByteSlack) ? 0 : forecast.excess(budget_),
          .rank = rank_of(forecast)};
}

void PlanSearch::add_mixture(const Mixture& mixture, const Forecast& head, const Forecast& tail,
                             std::vector<Idea>& result) const {
  if (!head.fits(budget_, kByteSlack) || blocks_ < 2) return;
  if (tail.fits(budget_, 1 / kByteSlack) || rank_of(tail) >= rank_of(head)) return;
  const double share = std::min(1.0, tail.share_that_fits(head, budget_));
  const auto first = static_cast<size_t>(std::ceil(share * static_cast<double>(blocks_)));
  result.push_back(idea(mixture, std::clamp<size_t>(first, 1, blocks_ - 1), tail.changed(tail, head, share)));
}

void PlanSearch::add_ideas(const Homes& homes, size_t resident, const std::vector<Saved>& settings,
                           const std::vector<Forecast>& forecasts, std::vector<Idea>& result) const {
  for (size_t head = 0; head < settings.size(); ++head) {
    const BlockChoice block = block_of(settings[head], homes);
    result.push_back(idea({block, block, homes, resident}, 0, forecasts[head]));
    for (size_t tail = 0; tail < settings.size(); ++tail)
      add_mixture({block, block_of(settings[tail], homes), homes, resident}, forecasts[head], forecasts[tail], result);
  }
}

PlanSearch::Homes PlanSearch::with_weights_on_device(Homes homes) const {
  if (!policy_.frozen_weights) homes.frozen_weights = Tier::kDevice;
  if (!policy_.trainable_weights) homes.trainable_weights = Tier::kDevice;
  return homes;
}

// What saved activations take is told from one combination of homes, and what homes take from one setting.
std::vector<PlanSearch::Idea> PlanSearch::ideas(const std::vector<Homes>& homes, const std::vector<Saved>& settings) {
  const auto forecast = [&](const Homes& there, const Saved& saved) {
    const BlockChoice block = block_of(saved, there);
    return Forecast(candidates_.scheduled(choices_of({block, block, there}, 0)));
  };
  std::vector<Forecast> by_setting, by_homes;
  for (const Saved& saved : settings) by_setting.push_back(forecast(homes.front(), saved));
  for (const Homes& there : homes) by_homes.push_back(forecast(there, settings.front()));
  const auto find = [&](const Homes& there) {
    return by_homes[static_cast<size_t>(std::find(homes.begin(), homes.end(), there) - homes.begin())];
  };
  std::vector<Idea> result;
  for (size_t i = 0; i < homes.size(); ++i) {
    std::vector<Forecast> forecasts;
    for (const Forecast& setting : by_setting) forecasts.push_back(by_homes[i].changed(by_setting.front(), setting));
    add_ideas(homes[i], 0, settings, forecasts, result);
    // What weights of blocks take, where those outside are on the device with them.
    Homes streamed = homes[i];
    if (!policy_.outer_weights) streamed.outer_weights = Tier::kDevice;
    const Homes kept = with_weights_on_device(streamed);
    for (size_t quarter = 1; quarter < 4 && kept != streamed; ++quarter) {
      std::vector<Forecast> partly;
      for (const Forecast& one : forecasts)
        partly.push_back(one.changed(find(streamed), find(kept), static_cast<double>(quarter) / 4));
      add_ideas(homes[i], blocks_ * quarter / 4, settings, partly, result);
    }
    if (policy_.optimizer_state || homes[i].optimizer_state == Tier::kDevice) continue;
    // What state takes, where gradients are that are on the device with it.
    Homes away = homes[i];
    if (!policy_.gradients) away.gradients = Tier::kDevice;
    Homes resident = away;
    resident.optimizer_state = Tier::kDevice;
    for (size_t setting = 0; setting < settings.size(); ++setting) {
      const BlockChoice head = block_of(settings[setting], homes[i]);
      BlockChoice tail = head;
      tail.resident_state = true;
      add_mixture({head, tail, homes[i]}, forecasts[setting], forecasts[setting].changed(find(away), find(resident)),
                  result);
    }
  }
  return result;
}

// What seems to fit, the fastest first; then what seems to be nearest to it.
void PlanSearch::allow_work(int64_t share) {
  const int64_t work = kOperationsToSchedule / (std::ssize(builder_.graph().ops) + 1) / share;
  work_limit_ = work_done() + std::max(kMinWork, effort_ == SearchEffort::kFull ? work : work / kSketchShare);
}

void PlanSearch::look_at(std::vector<Idea> ideas) {
  std::stable_sort(ideas.begin(), ideas.end(), [](const Idea& a, const Idea& b) {
    return std::tie(a.distance, a.rank) < std::tie(b.distance, b.rank);
  });
  for (const Idea& idea : ideas) {
    if (work_done() >= work_limit_) break;
    if (found_ && idea.seconds >= best_.seconds * kSecondSlack) continue;
    if (idea.first == 0) {
      (void)consider(idea.mixture, 0);
    } else {
      consider_mixture(idea.mixture, idea.first);
    }
  }
}

void PlanSearch::trade() {
  allow_work(kTradeShare);
  const auto improves_with = [&](size_t resident) {
    Mixture mixture = *best_mixture_;
    const double before = best_.seconds;
    mixture.resident = resident;
    if (mixture.head == mixture.tail) {
      (void)consider(mixture, 0);
    } else {
      consider_mixture(mixture, std::clamp<size_t>(best_first_, 1, blocks_ - 1));
    }
    return best_.seconds < before;
  };
  for (size_t step = std::bit_floor(std::max<size_t>(1, blocks_ / 8)); step > 0; step /= 2) {
    while (best_mixture_->resident + step <= blocks_ && improves_with(best_mixture_->resident + step)) {
    }
    while (best_mixture_->resident >= step && improves_with(best_mixture_->resident - step)) {
    }
  }
}

// Of those away, as few as the budget allows stay there: the first ones, or spread evenly over them.
void PlanSearch::settle_weights(bool is_even) {
  const Choices start = best_.choices;
  std::vector<size_t> away;
  for (size_t block = 0; block < blocks_; ++block) {
    BlockChoice kept = start.blocks[block];
    keep_weights(kept, policy_);
    if (kept != start.blocks[block]) away.push_back(block);
  }
  size_t too_few = 0, enough = away.size();
  while (too_few < enough) {
    const size_t middle = too_few + (enough - too_few) / 2;
    Choices choices = start;
    for (size_t i = 0; i < away.size(); ++i)
      if (is_even ? !is_spread(i, middle, away.size()) : i >= middle) keep_weights(choices.blocks[away[i]], policy_);
    if (consider(choices)) {
      enough = middle;
    } else {
      too_few = middle + 1;
    }
  }
}

// The last blocks' state: it is needed once per step, wherever its block is.
void PlanSearch::settle_state() {
  const Choices start = best_.choices;
  size_t too_few = 0, enough = blocks_;
  while (too_few < enough) {
    const size_t middle = too_few + (enough - too_few) / 2;
    Choices choices = start;
    for (size_t block = middle; block < blocks_; ++block) choices.blocks[block].resident_state = true;
    if (consider(choices)) {
      enough = middle;
    } else {
      too_few = middle + 1;
    }
  }
}

void PlanSearch::settle(bool is_even) {
  const bool may_trade = best_mixture_ && with_weights_on_device(best_mixture_->homes) != best_mixture_->homes;
  if (is_even && may_trade && blocks_ > 1) trade();
  settle_weights(is_even);
  if (!policy_.optimizer_state && best_.choices.optimizer_state != Tier::kDevice) settle_state();
}

// By live bytes, before packing, and below zero where only the packing is in the way: so the way down to the least
// plan is the same from every budget. A plan that overfills another tier is farther than any that does not.
int64_t PlanSearch::distance_to_fitting(const Estimate& estimate) const {
  constexpr int64_t kFar = int64_t{1} << 50;
  const int64_t device = estimate.bytes[0] - budget_.device.value_or(0);
  int64_t others = 0;
  for (size_t tier = 1; tier < kBudgetedTiers; ++tier) {
    const std::optional<int64_t> budget = budget_.of(static_cast<Tier>(tier));
    if (budget && estimate.bytes[tier] > *budget) others += kFar + estimate.bytes[tier] - *budget;
  }
  return others > 0 ? others + std::max<int64_t>(0, device) : device;
}

bool PlanSearch::improves(const Choices& choices) {
  if (--trials_ < 0) return false;
  const bool had = found_;
  const double before = had ? best_.seconds : 0;
  const int64_t distance_before = min_distance_;
  (void)consider(choices);
  return had ? best_.seconds < before : found_ || min_distance_ < distance_before;
}

bool PlanSearch::change_one_block(const Choices& start, const std::vector<Saved>& settings) {
  for (size_t block = 0; block < blocks_ && trials_ > 0; ++block) {
    for (const Saved& setting : settings) {
      Choices choices = start;
      choices.blocks[block].saved = followed(block, setting);
      if (choices.blocks[block] != start.blocks[block] && improves(choices)) return true;
    }
  }
  return false;
}

bool PlanSearch::change_two_blocks(const Choices& start, const std::vector<Saved>& settings) {
  for (size_t first = 0; first < blocks_; ++first) {
    for (size_t second = first + 1; second < blocks_ && trials_ > 0; ++second) {
      for (const Saved& setting : settings) {
        Choices choices = start;
        choices.blocks[first].saved = followed(first, setting);
        if (choices.blocks[first] == start.blocks[first]) continue;
        for (const Saved& other : settings) {
          choices.blocks[second].saved = followed(second, other);
          if (choices.blocks[second] != start.blocks[second] && improves(choices)) return true;
        }
      }
    }
  }
  return false;
}

void PlanSearch::change_blocks(const std::vector<Saved>& settings) {
  // Scheduling takes time with the operations; where there are few of them, most pairs of blocks have their turn.
  constexpr int64_t kStepsToSchedule = 100'000, kSquaresToSchedule = 10'000'000;
  const int64_t ops = std::ssize(builder_.graph().ops) + 1;
  trials_ = kStepsToSchedule / ops + kSquaresToSchedule / (ops * ops);
  while (trials_ > 0) {
    const Choices start = found_ ? best_.choices : nearest_;
    if (!change_one_block(start, settings) && !change_two_blocks(start, settings)) break;
  }
}

// Climbs twice, since one climb may end where no change of two blocks helps: first from the ideas whose weights are all
// at home or all away, then from those that spread them and from `starts`, if these are better.
void PlanSearch::find(std::span<const Choices> starts) {
  const std::vector<Saved> settings = saved_settings();
  std::vector<Idea> all = ideas(home_settings(), settings);
  const auto spread =
      std::stable_partition(all.begin(), all.end(), [](const Idea& idea) { return idea.mixture.resident == 0; });
  allow_work(1);
  look_at({all.begin(), spread});
  if (found_) settle(false);
  if (!found_ || effort_ == SearchEffort::kFull) change_blocks(settings);
  for (const Overlap overlap : {Overlap::kNarrow, Overlap::kSynchronous}) {
    if (found_) break;
    Choices tighter = nearest_;
    tighter.overlap = overlap;
    (void)consider(tighter);
  }

  const double before = found_ ? best_.seconds : std::numeric_limits<double>::infinity();
  allow_work(kSpreadShare);
  look_at({spread, all.end()});
  for (const Choices& start : starts) (void)consider(start);
  if (found_) settle(true);
  if (found_ && best_.seconds < before && effort_ == SearchEffort::kFull) change_blocks(settings);
}

// The search packs quickly; its result deserves more.
Plan PlanSearch::packed_well() {
  const Choices& choices = found_ ? best_.choices : nearest_;
  if (effort_ == SearchEffort::kSketch) return builder_.build(choices, best_.effort);
  const Estimate quick = candidates_.packed(choices, best_.effort),
                 thorough = candidates_.packed(choices, PackEffort::kThorough);
  const bool is_better =
      thorough.bytes[0] < quick.bytes[0] && missing(thorough) <= missing(quick) && thorough.seconds <= quick.seconds;
  return builder_.build(choices, is_better ? PackEffort::kThorough : best_.effort);
}

Plan PlanSearch::run(std::span<const Choices> starts) {
  find(starts);
  Plan plan = packed_well();
  for (size_t tier = 0; tier < kBudgetedTiers; ++tier) {
    const auto budget = budget_.of(static_cast<Tier>(tier));
    if (!budget) continue;
    plan.missing_bytes[tier] = std::max<int64_t>(0, plan.peaks[tier].bytes - *budget);
    plan.fits = plan.fits && plan.missing_bytes[tier] == 0;
  }
  return plan;
}

}  // namespace spillway
