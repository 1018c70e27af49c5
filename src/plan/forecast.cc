#include "plan/forecast.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace spillway {
namespace {

double allowed(const Budget& budget, size_t tier) {
  const std::optional<int64_t> bytes = budget.of(static_cast<Tier>(tier));
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
    for (size_t tier = 0; tier < kBudgetedTiers; ++tier)
      result.bytes[part][tier] += share * (to.bytes[part][tier] - from.bytes[part][tier]);
  }
  for (size_t section = 0; section < work.size(); ++section) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double before = from.work[section][lane], after = to.work[section][lane];
      if (before != after) result.work[section][lane] += share * (after - before);  // both may be infinite
    }
  }
  return result;
}

double Forecast::share_that_fits(const Forecast& other, const Budget& budget) const {
  double share = 0;
  for (size_t part = 0; part < bytes.size(); ++part) {
    for (size_t tier = 0; tier < kBudgetedTiers; ++tier) {
      const double excess = bytes[part][tier] - allowed(budget, tier),
                   saved = bytes[part][tier] - other.bytes[part][tier];
      if (excess > 0) share = std::max(share, saved > 0 ? excess / saved : 2);
    }
  }
  return share;
}

double Forecast::peak(size_t tier) const {
  double most = 0;
  for (const auto& part : bytes) most = std::max(most, part[tier]);
  return most;
}

bool Forecast::fits(const Budget& budget, double slack) const {
  for (size_t tier = 0; tier < kBudgetedTiers; ++tier) {
    if (peak(tier) > slack * allowed(budget, tier)) return false;
  }
  return true;
}

double Forecast::excess(const Budget& budget) const {
  double sum = 0;
  for (size_t tier = 0; tier < kBudgetedTiers; ++tier) sum += std::max(0.0, peak(tier) - allowed(budget, tier));
  return sum;
}

double Forecast::lane_seconds() const {
  double sum = 0;
  for (const auto& lanes : work) sum = std::accumulate(lanes.begin(), lanes.end(), sum);
  return sum;
}

}  // namespace spillway
