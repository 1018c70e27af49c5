#include "plan/forecast.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/index.h"

namespace spillway {
namespace {

double allowed(const Budget& budget, Tier tier) {
  const std::optional<int64_t> bytes = budget.of(tier);
  return bytes ? static_cast<double>(*bytes) : std::numeric_limits<double>::infinity();
}

}  // namespace

Forecast::Forecast(const Estimate& scheduled) : work(scheduled.work) {
  for (const auto& part : scheduled.part_bytes) std::copy(part.begin(), part.end(), bytes.emplace_back().begin());
}

Forecast Forecast::changed(const Forecast& from, const Forecast& to, double share) const {
  Forecast result = *this;
  if (share == 0) return result;
  for (size_t part = 0; part < bytes.size(); ++part) {
    for (const Tier tier : kEachBudgetedTier)
      nth(result.bytes[part], tier) += share * (nth(to.bytes[part], tier) - nth(from.bytes[part], tier));
  }
  change_work(result.work, from, to, share);
  return result;
}

void Forecast::change_work(LaneWork& work, const Forecast& from, const Forecast& to, double share) {
  if (share == 0) return;
  for (size_t section = 0; section < work.size(); ++section) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double before = from.work[section][lane], after = to.work[section][lane];
      if (before != after) work[section][lane] += share * (after - before);  // both may be infinite
    }
  }
}

double Forecast::share_that_fits(const Forecast& other, const Budget& budget) const {
  double share = 0;
  for (size_t part = 0; part < bytes.size(); ++part) {
    for (const Tier tier : kEachBudgetedTier) {
      const double here = nth(bytes[part], tier), excess = here - allowed(budget, tier),
                   saved = here - nth(other.bytes[part], tier);
      if (excess > 0) share = std::max(share, saved > 0 ? excess / saved : 2);
    }
  }
  return share;
}

double Forecast::peak(Tier tier) const {
  double most = 0;
  for (const auto& part : bytes) most = std::max(most, nth(part, tier));
  return most;
}

bool Forecast::fits(const Budget& budget, double slack) const {
  for (const Tier tier : kEachBudgetedTier) {
    if (peak(tier) > slack * allowed(budget, tier)) return false;
  }
  return true;
}

double Forecast::excess(const Budget& budget) const {
  double sum = 0;
  for (const Tier tier : kEachBudgetedTier) sum += std::max(0.0, peak(tier) - allowed(budget, tier));
  return sum;
}

double lane_seconds(const LaneWork& work) {
  double sum = 0;
  for (const auto& lanes : work) sum = std::accumulate(lanes.begin(), lanes.end(), sum);
  return sum;
}

}  // namespace spillway
