#include "plan/proposals.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "base/index.h"

namespace spillway {
namespace {

constexpr ActivationPolicy kKept = ActivationPolicy::kKeep, kRecomputed = ActivationPolicy::kRecompute;

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

}  // namespace

bool PlanProposals::Mixture::is_uniform() const {
  return head == tail &&
         std::none_of(moves.begin(), moves.end(), [](const Move& move) { return move.where == Subset::Where::kRest; });
}

bool PlanProposals::Mixture::spreads_homes() const {
  return std::any_of(moves.begin(), moves.end(),
                     [](const Move& move) { return move.where == Subset::Where::kSpread && move.count > 0; });
}

size_t PlanProposals::Mixture::moved(RoleSet roles, Tier tier) const {
  for (const Move& move : moves)
    if (move.roles == roles && move.tier == tier && move.where == Subset::Where::kSpread) return move.count;
  return 0;
}

// Nearer moves come first: the others take of the blocks that these leave.
void PlanProposals::Mixture::set_moved(RoleSet roles, Tier tier, size_t count) {
  auto move = std::find_if(moves.begin(), moves.end(), [&](const Move& one) { return one.tier >= tier; });
  while (move != moves.end() && move->tier == tier && (move->roles != roles || move->where != Subset::Where::kSpread))
    ++move;
  if (move == moves.end() || move->tier != tier) move = moves.insert(move, {.roles = roles, .tier = tier});
  move->count = count;
}

PlanProposals::PlanProposals(PlanCandidates& candidates, const Budget& budget, const Policy& policy)
    : candidates_(candidates),
      builder_(candidates.builder()),
      budget_(budget),
      policy_(policy),
      blocks_(builder_.graph().blocks.size()),
      roles_(builder_.graph(), policy, tiers()) {}

// A tier may be chosen if there is a budget for it and the lanes that lead there; a tier that the user set by name is
// used whatever the budget says.
bool PlanProposals::has(Tier tier) const {
  const auto rate = [&](Lane lane) { return nth(builder_.costs().machine().link_bytes_per_second, lane) > 0; };
  if (tier == Tier::kHost)
    return budget_.host.value_or(0) > 0 && rate(Lane::kHostToDevice) && rate(Lane::kDeviceToHost);
  if (tier == Tier::kDisk) return budget_.disk.value_or(0) > 0 && rate(Lane::kDiskRead) && rate(Lane::kDiskWrite);
  return true;
}

std::vector<Tier> PlanProposals::tiers() const {
  std::vector<Tier> result;
  std::copy_if(kEachBudgetedTier.begin(), kEachBudgetedTier.end(), std::back_inserter(result),
               [&](Tier tier) { return has(tier); });
  return result;
}

// The groups are in the order of SavedGroup: boundary, attention, product, elementwise.
std::vector<Saved> PlanProposals::saved_settings() const {
  std::vector<Saved> open = {{kKept, kKept, kKept, kKept},
                             {kKept, kKept, kKept, kRecomputed},
                             {kKept, kKept, kRecomputed, kRecomputed},
                             {kKept, kRecomputed, kRecomputed, kRecomputed}};
  for (const auto& [tier, away] :
       {std::pair{Tier::kHost, ActivationPolicy::kHost}, std::pair{Tier::kDisk, ActivationPolicy::kDisk}}) {
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

Saved PlanProposals::followed(size_t block, Saved setting) const {
  const SavedPolicy& fixed = policy_.saved_of(static_cast<BlockId>(block));
  for (size_t group = 0; group < kSavedGroups; ++group) setting[group] = fixed[group].value_or(setting[group]);
  return setting;
}

bool PlanProposals::are_alike(const Saved& setting, const Saved& other) const {
  for (size_t block = 0; block < blocks_; ++block) {
    if (followed(block, setting) != followed(block, other)) return false;
  }
  return true;
}

Choices PlanProposals::choices_of(const Mixture& mixture, size_t first) const {
  Choices choices{.groups = roles_.residencies(mixture.homes),
                  .overlap = mixture.overlap,
                  .synchronous_activations = policy_.synchronous};
  choices.saved.reserve(blocks_);
  const Subset head{mixture.alternates ? Subset::Where::kSpread : Subset::Where::kFirst, first};
  for (size_t block = 0; block < blocks_; ++block)
    choices.saved.push_back(followed(block, head.has(block, blocks_) ? mixture.head : mixture.tail));
  std::vector<RoleSet> moved(mixture.moves.empty() ? 0 : blocks_, RoleSet{});
  for (const Move& move : mixture.moves) {
    const auto is_left = [&](RoleSet taken) { return !taken.meets(move.roles); };
    const auto left = static_cast<size_t>(std::count_if(moved.begin(), moved.end(), is_left));
    const bool is_rest = move.where == Subset::Where::kRest;
    const Subset taken{move.where, is_rest ? first : std::min(move.count, left)};
    size_t others = 0;
    for (size_t block = 0; block < blocks_; ++block) {
      if (!is_left(moved[block]) || !taken.has(others++, left)) continue;
      moved[block].add(move.roles);
      roles_.move(choices, move.roles, static_cast<BlockId>(block), move.tier);
    }
  }
  return choices;
}

PlanProposals::Mixture PlanProposals::nothing_moved() const {
  const Saved kept = saved_alike(kKept);
  return {kept, kept, roles_.combinations().front(), {}};
}

std::vector<Homes> PlanProposals::farthest() const {
  std::vector<Homes> result;
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    if (!has(tier)) continue;
    Homes& homes = result.emplace_back();
    for (const Role role : kEachRole) {
      const std::vector<Tier> options = roles_.options(role, homes);
      const auto farther = std::find(options.begin(), options.end(), tier);
      nth(homes, role) = farther == options.end() ? options.back() : *farther;
    }
  }
  return result;
}

bool PlanProposals::may_update_on_host() const {
  const std::vector<Tier> options = roles_.options(Role::kState, {});
  return roles_.is_present(Role::kState) && std::find(options.begin(), options.end(), Tier::kHost) != options.end();
}

bool PlanProposals::may_split_state(const Homes& homes) const {
  return roles_.is_open(Role::kState) && nth(homes, Role::kState) == Tier::kHost && has(Tier::kDisk);
}

double PlanProposals::rank_of(const LaneWork& work) const {
  return builder_.min_seconds(work, candidates_.accumulation()) + kWaitingShare * lane_seconds(work);
}

PlanProposals::Proposal PlanProposals::proposal(const Mixture& mixture, size_t first, const Forecast& forecast) const {
  Proposal result{.mixture = mixture,
                  .first = first,
                  .seconds = builder_.min_seconds(forecast.work, candidates_.accumulation()),
                  .distance = forecast.fits(budget_, kByteSlack) ? 0 : forecast.excess(budget_),
                  .rank = rank_of(forecast.work)};
  if (result.distance > 0) result.mixture.overlap = Overlap::kWide;
  return result;
}

void PlanProposals::add_mixture(const Mixture& mixture, const Forecast& head, const Forecast& tail,
                                std::vector<Proposal>& result) const {
  if (!head.fits(budget_, kByteSlack) || blocks_ < 2) return;
  if (tail.fits(budget_, 1 / kByteSlack) || rank_of(tail.work) >= rank_of(head.work)) return;
  const double share = std::min(1.0, tail.share_that_fits(head, budget_));
  const auto first = static_cast<size_t>(std::ceil(share * static_cast<double>(blocks_)));
  result.push_back(proposal(mixture, std::clamp<size_t>(first, 1, blocks_ - 1), tail.changed(tail, head, share)));
}

// The more blocks are treated as `head`, the less work some lanes have and the more others: the busiest of them has
// least somewhere in between, and more on both sides of that.
void PlanProposals::add_alternation(const Mixture& mixture, const Forecast& head, const Forecast& tail, double seconds,
                                    std::vector<Proposal>& result) const {
  const auto share_of = [&](size_t count) { return static_cast<double>(count) / static_cast<double>(blocks_); };
  LaneWork work;
  const auto rank = [&](size_t count) {
    work = tail.work;
    Forecast::change_work(work, tail, head, share_of(count));
    return rank_of(work);
  };
  size_t fastest = 0, slower = blocks_;
  while (slower - fastest > 1) {
    const size_t middle = fastest + (slower - fastest) / 2;
    (rank(middle) <= rank(middle - 1) ? fastest : slower) = middle;
  }
  const double needed = std::ceil(tail.share_that_fits(head, budget_) * static_cast<double>(blocks_));
  const size_t count = std::max(fastest, static_cast<size_t>(needed));
  if (count == 0 || count >= blocks_ || rank(count) >= std::min({rank(0), rank(blocks_), seconds})) return;
  result.push_back(proposal(mixture, count, tail.changed(tail, head, share_of(count))));
}

std::vector<PlanProposals::Proposal> PlanProposals::alternations(double seconds) const {
  std::vector<Proposal> result;
  if (blocks_ < 2) return result;
  for (const Family& family : families_) {
    for (size_t head = 0; head < settings_.size(); ++head) {
      const Forecast& forecast = family.forecasts[head];
      if (!forecast.fits(budget_, 1)) continue;
      for (size_t tail = 0; tail < settings_.size(); ++tail) {
        const Forecast& other = family.forecasts[tail];
        if (tail == head || min_seconds(forecast, other) >= seconds) continue;
        if (tail < head && other.fits(budget_, 1)) continue;  // the other way round it has been looked at
        const Mixture mixture{settings_[head], settings_[tail], family.homes, family.moves, true};
        add_alternation(mixture, forecast, other, seconds, result);
      }
    }
  }
  return result;
}

void PlanProposals::add_proposals(const Family& family, std::vector<Proposal>& result) const {
  std::vector<double> ranks;
  for (const Forecast& forecast : family.forecasts) ranks.push_back(rank_of(forecast.work));
  for (size_t head = 0; head < settings_.size(); ++head) {
    const Saved& saved = settings_[head];
    result.push_back(proposal({saved, saved, family.homes, family.moves}, 0, family.forecasts[head]));
    for (size_t tail = 0; tail < settings_.size(); ++tail) {
      if (ranks[tail] >= ranks[head]) continue;
      add_mixture({saved, settings_[tail], family.homes, family.moves}, family.forecasts[head], family.forecasts[tail],
                  result);
    }
  }
}

Homes PlanProposals::with_weights_on_device(Homes homes) const {
  for (const Role role : kEachRole)
    if (kBlockWeights.has(role) && roles_.is_open(role)) nth(homes, role) = Tier::kDevice;
  return homes;
}

Homes PlanProposals::with_weights_on_disk(Homes homes) const {
  for (const Role role : kEachRole) {
    const bool may_leave = kBlockWeights.has(role) && roles_.is_open(role) && has(Tier::kDisk);
    if (may_leave && nth(homes, role) == Tier::kHost) nth(homes, role) = Tier::kDisk;
  }
  return homes;
}

Homes PlanProposals::with_outer_near(Homes homes) const {
  nth(homes, Role::kOuter) = roles_.options(Role::kOuter, homes).front();
  nth(homes, Role::kTables) = roles_.options(Role::kTables, homes).back();
  return homes;
}

PlanProposals::Family PlanProposals::changed(Family family, const Forecast& from, const Forecast& to, double share) {
  for (Forecast& one : family.forecasts) one = one.changed(from, to, share);
  return family;
}

// Takes as many blocks as host memory requires while it holds nothing but `family`.
void PlanProposals::add_distant(const Family& family, RoleSet roles, size_t most, const Forecast& from,
                                const Forecast& to, std::vector<Family>& result) const {
  const auto share_of = [&](size_t blocks) { return static_cast<double>(blocks) / static_cast<double>(blocks_); };
  const Forecast& near = family.forecasts.front();
  const double share = near.share_that_fits(near.changed(from, to, share_of(most)), {.host = budget_.host});
  const auto blocks = static_cast<size_t>(std::ceil(share * static_cast<double>(most)));
  if (blocks == 0 || blocks > most) return;
  Family distant = changed(family, from, to, share_of(blocks));
  distant.moves.push_back({.roles = roles, .tier = Tier::kDisk, .count = blocks});
  result.push_back(std::move(distant));
}

const Forecast& PlanProposals::KnownForecasts::of(const Homes& there) const {
  return nth(by_homes, std::find(homes.begin(), homes.end(), there) - homes.begin());
}

// Derives the cost of saved activations from one combination of homes, and the cost of homes from one setting. Where
// scheduling takes long, the cost of homes is that of each role's own, one after the other.
PlanProposals::KnownForecasts PlanProposals::make_forecasts() {
  const auto forecast = [&](const Homes& there, const Saved& saved, std::vector<Move> moves = {}) {
    return Forecast(
        candidates_.scheduled(choices_of({saved, saved, there, std::move(moves), false, Overlap::kWide}, 0)));
  };
  KnownForecasts known{.homes = roles_.combinations()};
  for (const Saved& saved : settings_) known.by_setting.push_back(forecast(known.homes.front(), saved));
  const Homes& first = known.homes.front();
  std::map<std::pair<Role, Tier>, Forecast> by_role;  // of the first homes with the role in that tier
  const auto summed = [&](const Homes& there) {
    Forecast sum = known.by_setting.front();
    for (const Role role : kEachRole) {
      if (nth(there, role) == nth(first, role)) continue;
      const std::pair moved{role, nth(there, role)};
      auto alone = by_role.find(moved);
      if (alone == by_role.end()) {
        Homes homes = first;
        nth(homes, role) = nth(there, role);
        alone = by_role.emplace(moved, forecast(homes, settings_.front())).first;
      }
      sum = sum.changed(known.by_setting.front(), alone->second);
    }
    return sum;
  };
  const bool is_long = builder_.scheduling_work() > kManyOperations;
  for (const Homes& there : known.homes)
    known.by_homes.push_back(is_long ? summed(there) : forecast(there, settings_.front()));
  const auto split =
      std::find_if(known.homes.begin(), known.homes.end(), [&](const Homes& there) { return may_split_state(there); });
  if (split != known.homes.end())
    known.state_split = {known.of(*split), forecast(*split, settings_.front(),
                                                    {{.roles = kStates, .tier = Tier::kDisk, .count = blocks_}})};
  return known;
}

std::vector<PlanProposals::Family> PlanProposals::families_of(const Homes& homes, const KnownForecasts& known) const {
  Family uniform{homes, {}, {}};
  for (const Forecast& setting : known.by_setting)
    uniform.forecasts.push_back(known.of(homes).changed(known.by_setting.front(), setting));
  std::vector<Family> families = {std::move(uniform)};
  // The cost of the weights of blocks, derived with the weights outside on the device.
  const Homes streamed = with_outer_near(homes);
  const Homes kept = with_weights_on_device(streamed);
  for (size_t quarter = 1; quarter < 4 && kept != streamed; ++quarter) {
    families.push_back(changed(families.front(), known.of(streamed), known.of(kept), static_cast<double>(quarter) / 4));
    families.back().moves = {{.roles = kBlockWeights, .tier = Tier::kDevice, .count = blocks_ * quarter / 4}};
  }
  const size_t near = families.size();
  const Homes distant = with_weights_on_disk(streamed);
  for (size_t family = 0; distant != streamed && family < near; ++family) {
    const size_t resident = families[family].moves.empty() ? 0 : families[family].moves.front().count;
    add_distant(families[family], kBlockWeights, blocks_ - resident, known.of(streamed), known.of(distant), families);
  }
  for (size_t family = families.size(); may_split_state(homes) && family-- > 0;)
    add_distant(families[family], kStates, blocks_, known.state_split->first, known.state_split->second, families);
  return families;
}

void PlanProposals::add_resident_state(const Family& family, const KnownForecasts& known,
                                       std::vector<Proposal>& result) const {
  if (!roles_.is_open(Role::kState) || nth(family.homes, Role::kState) == Tier::kDevice) return;
  // The cost of state, derived with gradients on the device.
  Homes away = family.homes;
  if (roles_.is_open(Role::kGradients)) nth(away, Role::kGradients) = Tier::kDevice;
  Homes resident = away;
  nth(resident, Role::kState) = Tier::kDevice;
  for (size_t setting = 0; setting < settings_.size(); ++setting) {
    const Forecast& forecast = family.forecasts[setting];
    const Saved& saved = settings_[setting];
    const Move tail{.roles = kStates, .tier = Tier::kDevice, .where = Subset::Where::kRest};
    add_mixture({saved, saved, family.homes, {tail}}, forecast, forecast.changed(known.of(away), known.of(resident)),
                result);
  }
}

std::vector<PlanProposals::Proposal> PlanProposals::all(const std::vector<Saved>& settings) {
  settings_ = settings;
  families_.clear();
  const KnownForecasts known = make_forecasts();
  std::vector<Proposal> result;
  for (const Homes& homes : known.homes) {
    std::vector<Family> families = families_of(homes, known);
    for (const Family& family : families) add_proposals(family, result);
    add_resident_state(families.front(), known, result);
    std::move(families.begin(), families.end(), std::back_inserter(families_));
  }
  return result;
}

}  // namespace spillway
