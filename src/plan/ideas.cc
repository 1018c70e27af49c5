#include "plan/ideas.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/index.h"

namespace spillway {
namespace {

constexpr Treatment kKept = Treatment::kKeep, kRecomputed = Treatment::kRecompute;

// The factor by which forecasts of bytes may be wrong.
constexpr double kByteSlack = 1.05;
// The share of all lanes' work that counts as waiting, to order candidates whose forecasts are equally good.
constexpr double kWaitingShare = 0.02;

// Returns a lower bound of the seconds of any plan between the two.
double min_seconds(const Forecast& one, const Forecast& other) {
  double sum = 0;
  for (size_t section = 0; section < one.work.size(); ++section) {
    double busiest = 0;
    for (size_t lane = 0; lane < kLanes; ++lane)
      busiest = std::max(busiest, std::min(one.work[section][lane], other.work[section][lane]));
    sum += busiest;
  }
  return sum;
}

BlockChoice block_of(const PlanIdeas::Saved& saved, const PlanIdeas::Homes& homes) {
  return {saved, homes.frozen_weights, homes.trainable_weights};
}

}  // namespace

bool is_spread(size_t block, size_t count, size_t blocks) {
  const auto before = [&](size_t b) { return (2 * b * count + blocks) / (2 * blocks); };
  return before(block) != before(block + 1);
}

PlanIdeas::PlanIdeas(PlanCandidates& candidates, const Budget& budget, const Policy& policy)
    : candidates_(candidates),
      builder_(candidates.builder()),
      budget_(budget),
      policy_(policy),
      blocks_(builder_.graph().blocks.size()) {
  const std::vector<Value>& values = builder_.graph().values;
  has_state_ =
      std::any_of(values.begin(), values.end(), [](const Value& v) { return v.kind == ValueKind::kOptimizerState; });
  has_tables_ = builder_.has_tables();
}

void PlanIdeas::bring_weights(BlockChoice& block, Tier tier) const {
  if (!policy_.frozen_weights) block.frozen_weights = std::min(block.frozen_weights, tier);
  if (!policy_.trainable_weights) block.trainable_weights = std::min(block.trainable_weights, tier);
}

void PlanIdeas::send_weights(BlockChoice& block, Tier tier) const {
  if (!policy_.frozen_weights) block.frozen_weights = std::max(block.frozen_weights, tier);
  if (!policy_.trainable_weights) block.trainable_weights = std::max(block.trainable_weights, tier);
}

// A tier may be chosen if there is a budget for it and the lanes that lead there; a tier that the user set by name is
// used whatever the budget says.
bool PlanIdeas::has(Tier tier) const {
  const auto rate = [&](Lane lane) { return nth(builder_.costs().machine().link_bytes_per_second, lane) > 0; };
  if (tier == Tier::kHost)
    return budget_.host.value_or(0) > 0 && rate(Lane::kHostToDevice) && rate(Lane::kDeviceToHost);
  if (tier == Tier::kDisk) return budget_.disk.value_or(0) > 0 && rate(Lane::kDiskRead) && rate(Lane::kDiskWrite);
  return true;
}

std::vector<Tier> PlanIdeas::tiers(std::optional<Tier> fixed) const {
  if (fixed) return {*fixed};
  std::vector<Tier> result = {Tier::kDevice};
  if (has(Tier::kHost)) result.push_back(Tier::kHost);
  if (has(Tier::kDisk)) result.push_back(Tier::kDisk);
  return result;
}

// The groups are in the order of SavedGroup: boundary, attention, product, elementwise.
std::vector<PlanIdeas::Saved> PlanIdeas::saved_settings() const {
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

PlanIdeas::Saved PlanIdeas::followed(size_t block, Saved setting) const {
  const SavedPolicy& fixed = policy_.saved_of(static_cast<BlockId>(block));
  for (size_t group = 0; group < kSavedGroups; ++group) setting[group] = fixed[group].value_or(setting[group]);
  return setting;
}

bool PlanIdeas::are_alike(const Saved& setting, const Saved& other) const {
  for (size_t block = 0; block < blocks_; ++block) {
    if (followed(block, setting) != followed(block, other)) return false;
  }
  return true;
}

std::vector<PlanIdeas::Homes> PlanIdeas::home_settings() const {
  std::vector<Homes> result;
  for (const Tier state : tiers(policy_.optimizer_state)) {
    for (const Tier gradients : tiers(policy_.gradients)) {
      // Gradients leave the device after the state, which is larger and needed once per optimizer step, and no farther.
      if (!policy_.gradients && gradients > state) continue;
      for (const Tier frozen : tiers(policy_.frozen_weights)) {
        for (const Tier trainable : tiers(policy_.trainable_weights)) {
          if (!policy_.frozen_weights && !policy_.trainable_weights && frozen != trainable) continue;
          for (const Tier outer : tiers(policy_.outer_weights)) {
            // Weights outside blocks cost waiting for little gain: they leave after the blocks' weights, to the same
            // tier.
            if (!policy_.outer_weights && outer != Tier::kDevice && outer != std::max(frozen, trainable)) continue;
            Homes homes{frozen, trainable, outer, outer, gradients, state};
            for (const Tier tables : table_tiers(outer)) {
              homes.tables = tables;
              result.push_back(homes);
            }
          }
        }
      }
    }
  }
  return result;
}

std::vector<Tier> PlanIdeas::table_tiers(Tier outer_weights) const {
  if (!may_move_tables() || !has(Tier::kHost)) return {outer_weights};
  if (outer_weights == Tier::kDevice) return {Tier::kDevice, Tier::kHost};
  return {Tier::kHost};
}

Choices PlanIdeas::choices_of(const Mixture& mixture, size_t first) const {
  Choices choices{.blocks = std::vector<BlockChoice>(blocks_, mixture.tail),
                  .outer_weights = mixture.homes.outer_weights,
                  .tables = mixture.homes.tables,
                  .gradients = mixture.homes.gradients,
                  .optimizer_state = mixture.homes.optimizer_state,
                  .update_site = mixture.homes.optimizer_state == Tier::kHost ? Tier::kHost : Tier::kDevice,
                  .overlap = mixture.overlap,
                  .synchronous_activations = policy_.synchronous};
  const auto& [resident, distant, distant_state] = mixture.apart;
  size_t others = 0;
  for (size_t block = 0; block < blocks_; ++block) {
    BlockChoice& choice = choices.blocks[block];
    if (mixture.alternates ? is_spread(block, first, blocks_) : block < first) choice = mixture.head;
    choice.saved = followed(block, choice.saved);
    if (is_spread(block, resident, blocks_)) {
      bring_weights(choice, Tier::kDevice);
    } else if (is_spread(others++, std::min(distant, blocks_ - resident), blocks_ - resident)) {
      send_weights(choice, Tier::kDisk);
    }
    if (!choice.state && is_spread(block, distant_state, blocks_)) {
      choice.state = Tier::kDisk;
      choice.device_update = true;
    }
  }
  return choices;
}

PlanIdeas::Mixture PlanIdeas::nothing_moved() const {
  const Homes homes = home_settings().front();
  const BlockChoice block = block_of({kKept, kKept, kKept, kKept}, homes);
  return {block, block, homes};
}

bool PlanIdeas::may_update_on_host() const {
  const std::vector<Tier> homes = tiers(policy_.optimizer_state);
  return has_state_ && std::find(homes.begin(), homes.end(), Tier::kHost) != homes.end();
}

bool PlanIdeas::may_split_state(const Homes& homes) const {
  return may_move_state() && homes.optimizer_state == Tier::kHost && has(Tier::kDisk);
}

double PlanIdeas::rank_of(const Forecast& forecast) const {
  return builder_.min_seconds(forecast.work, candidates_.accumulation()) + kWaitingShare * forecast.lane_seconds();
}

PlanIdeas::Idea PlanIdeas::idea(const Mixture& mixture, size_t first, const Forecast& forecast) const {
  Idea result{.mixture = mixture,
              .first = first,
              .seconds = builder_.min_seconds(forecast.work, candidates_.accumulation()),
              .distance = forecast.fits(budget_, kByteSlack) ? 0 : forecast.excess(budget_),
              .rank = rank_of(forecast)};
  if (result.distance > 0) result.mixture.overlap = Overlap::kWide;
  return result;
}

void PlanIdeas::add_mixture(const Mixture& mixture, const Forecast& head, const Forecast& tail,
                            std::vector<Idea>& result) const {
  if (!head.fits(budget_, kByteSlack) || blocks_ < 2) return;
  if (tail.fits(budget_, 1 / kByteSlack) || rank_of(tail) >= rank_of(head)) return;
  const double share = std::min(1.0, tail.share_that_fits(head, budget_));
  const auto first = static_cast<size_t>(std::ceil(share * static_cast<double>(blocks_)));
  result.push_back(idea(mixture, std::clamp<size_t>(first, 1, blocks_ - 1), tail.changed(tail, head, share)));
}

// The more blocks are treated as `head`, the less work some lanes have and the more others: the busiest of them has
// least somewhere in between, and more on both sides of that.
void PlanIdeas::add_alternation(const Mixture& mixture, const Forecast& head, const Forecast& tail, double seconds,
                                std::vector<Idea>& result) const {
  const auto mixed = [&](size_t count) {
    return tail.changed(tail, head, static_cast<double>(count) / static_cast<double>(blocks_));
  };
  const auto rank = [&](size_t count) { return rank_of(mixed(count)); };
  size_t fastest = 0, slower = blocks_;
  while (slower - fastest > 1) {
    const size_t middle = fastest + (slower - fastest) / 2;
    (rank(middle) <= rank(middle - 1) ? fastest : slower) = middle;
  }
  const double needed = std::ceil(tail.share_that_fits(head, budget_) * static_cast<double>(blocks_));
  const size_t count = std::max(fastest, static_cast<size_t>(needed));
  if (count == 0 || count >= blocks_ || rank(count) >= std::min({rank(0), rank(blocks_), seconds})) return;
  result.push_back(idea(mixture, count, mixed(count)));
}

std::vector<PlanIdeas::Idea> PlanIdeas::alternations(double seconds) const {
  std::vector<Idea> result;
  if (blocks_ < 2) return result;
  for (const Family& family : families_) {
    for (size_t head = 0; head < settings_.size(); ++head) {
      const Forecast& forecast = family.forecasts[head];
      if (!forecast.fits(budget_, 1)) continue;
      for (size_t tail = 0; tail < settings_.size(); ++tail) {
        const Forecast& other = family.forecasts[tail];
        if (tail == head || min_seconds(forecast, other) >= seconds) continue;
        if (tail < head && other.fits(budget_, 1)) continue;  // the other way round it has been looked at
        const Mixture mixture{block_of(settings_[head], family.homes), block_of(settings_[tail], family.homes),
                              family.homes, family.apart, true};
        add_alternation(mixture, forecast, other, seconds, result);
      }
    }
  }
  return result;
}

void PlanIdeas::add_ideas(const Family& family, std::vector<Idea>& result) const {
  for (size_t head = 0; head < settings_.size(); ++head) {
    const BlockChoice block = block_of(settings_[head], family.homes);
    result.push_back(idea({block, block, family.homes, family.apart}, 0, family.forecasts[head]));
    for (size_t tail = 0; tail < settings_.size(); ++tail) {
      add_mixture({block, block_of(settings_[tail], family.homes), family.homes, family.apart}, family.forecasts[head],
                  family.forecasts[tail], result);
    }
  }
}

PlanIdeas::Homes PlanIdeas::with_weights_on_device(Homes homes) const {
  if (!policy_.frozen_weights) homes.frozen_weights = Tier::kDevice;
  if (!policy_.trainable_weights) homes.trainable_weights = Tier::kDevice;
  return homes;
}

PlanIdeas::Homes PlanIdeas::with_weights_on_disk(Homes homes) const {
  if (!has(Tier::kDisk)) return homes;
  if (!policy_.frozen_weights && homes.frozen_weights == Tier::kHost) homes.frozen_weights = Tier::kDisk;
  if (!policy_.trainable_weights && homes.trainable_weights == Tier::kHost) homes.trainable_weights = Tier::kDisk;
  return homes;
}

PlanIdeas::Family PlanIdeas::changed(Family family, const Forecast& from, const Forecast& to, double share) {
  for (Forecast& one : family.forecasts) one = one.changed(from, to, share);
  return family;
}

// Takes as many blocks as host memory requires while it holds nothing but `family`.
void PlanIdeas::add_distant(const Family& family, size_t Apart::*count, size_t most, const Forecast& from,
                            const Forecast& to, std::vector<Family>& result) const {
  const auto share_of = [&](size_t blocks) { return static_cast<double>(blocks) / static_cast<double>(blocks_); };
  const Forecast& near = family.forecasts.front();
  const double share = near.share_that_fits(near.changed(from, to, share_of(most)), {.host = budget_.host});
  const auto blocks = static_cast<size_t>(std::ceil(share * static_cast<double>(most)));
  if (blocks == 0 || blocks > most) return;
  Family distant = changed(family, from, to, share_of(blocks));
  distant.apart.*count = blocks;
  result.push_back(std::move(distant));
}

const Forecast& PlanIdeas::KnownForecasts::of(const Homes& there) const {
  return nth(by_homes, std::find(homes.begin(), homes.end(), there) - homes.begin());
}

// Derives the cost of saved activations from one combination of homes, and the cost of homes from one setting.
PlanIdeas::KnownForecasts PlanIdeas::make_forecasts() {
  const auto forecast = [&](const Homes& there, const Saved& saved, const Apart& apart = {}) {
    const BlockChoice block = block_of(saved, there);
    return Forecast(candidates_.scheduled(choices_of({block, block, there, apart, false, Overlap::kWide}, 0)));
  };
  KnownForecasts known{.homes = home_settings()};
  for (const Saved& saved : settings_) known.by_setting.push_back(forecast(known.homes.front(), saved));
  for (const Homes& there : known.homes) known.by_homes.push_back(forecast(there, settings_.front()));
  const auto split =
      std::find_if(known.homes.begin(), known.homes.end(), [&](const Homes& there) { return may_split_state(there); });
  if (split != known.homes.end())
    known.state_split = {known.of(*split), forecast(*split, settings_.front(), {.distant_state = blocks_})};
  return known;
}

std::vector<PlanIdeas::Family> PlanIdeas::families_of(const Homes& homes, const KnownForecasts& known) const {
  Family uniform{homes, {}, {}};
  for (const Forecast& setting : known.by_setting)
    uniform.forecasts.push_back(known.of(homes).changed(known.by_setting.front(), setting));
  std::vector<Family> families = {std::move(uniform)};
  // The cost of the weights of blocks, derived with the weights outside on the device.
  Homes streamed = homes;
  if (!policy_.outer_weights) streamed.outer_weights = Tier::kDevice;
  streamed.tables = table_tiers(streamed.outer_weights).back();
  const Homes kept = with_weights_on_device(streamed);
  for (size_t quarter = 1; quarter < 4 && kept != streamed; ++quarter) {
    families.push_back(changed(families.front(), known.of(streamed), known.of(kept), static_cast<double>(quarter) / 4));
    families.back().apart.resident = blocks_ * quarter / 4;
  }
  const size_t near = families.size();
  const Homes distant = with_weights_on_disk(streamed);
  for (size_t family = 0; distant != streamed && family < near; ++family) {
    const size_t others = blocks_ - families[family].apart.resident;
    add_distant(families[family], &Apart::distant, others, known.of(streamed), known.of(distant), families);
  }
  for (size_t family = families.size(); may_split_state(homes) && family-- > 0;)
    add_distant(families[family], &Apart::distant_state, blocks_, known.state_split->first, known.state_split->second,
                families);
  return families;
}

void PlanIdeas::add_resident_state(const Family& family, const KnownForecasts& known, std::vector<Idea>& result) const {
  if (policy_.optimizer_state || family.homes.optimizer_state == Tier::kDevice) return;
  // The cost of state, derived with gradients on the device.
  Homes away = family.homes;
  if (!policy_.gradients) away.gradients = Tier::kDevice;
  Homes resident = away;
  resident.optimizer_state = Tier::kDevice;
  for (size_t setting = 0; setting < settings_.size(); ++setting) {
    const Forecast& forecast = family.forecasts[setting];
    const BlockChoice head = block_of(settings_[setting], family.homes);
    BlockChoice tail = head;
    tail.state = Tier::kDevice;
    add_mixture({head, tail, family.homes}, forecast, forecast.changed(known.of(away), known.of(resident)), result);
  }
}

std::vector<PlanIdeas::Idea> PlanIdeas::all(const std::vector<Saved>& settings) {
  settings_ = settings;
  families_.clear();
  const KnownForecasts known = make_forecasts();
  std::vector<Idea> result;
  for (const Homes& homes : known.homes) {
    std::vector<Family> families = families_of(homes, known);
    for (const Family& family : families) add_ideas(family, result);
    add_resident_state(families.front(), known, result);
    std::move(families.begin(), families.end(), std::back_inserter(families_));
  }
  return result;
}

}  // namespace spillway
