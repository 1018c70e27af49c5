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
  for (size_t tier = 0; tier < bytes.size(); ++tier) bytes[tier] = static_cast<double>(scheduled.bytes[tier]);
}

Forecast Forecast::changed(const Forecast& from, const Forecast& to, double share) const {
  Forecast result = *this;
  if (share == 0) return result;
  for (size_t tier = 0; tier < bytes.size(); ++tier) result.bytes[tier] += share * (to.bytes[tier] - from.bytes[tier]);
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
  for (size_t tier = 0; tier < bytes.size(); ++tier) {
    const double excess = bytes[tier] - allowed(budget, tier), saved = bytes[tier] - other.bytes[tier];
    if (excess > 0) share = std::max(share, saved > 0 ? excess / saved : 2);
  }
  return share;
}

bool Forecast::fits(const Budget& budget, double slack) const {
  for (size_t tier = 0; tier < bytes.size(); ++tier) {
    if (bytes[tier] > slack * allowed(budget, tier)) return false;
  }
  return true;
}

double Forecast::excess(const Budget& budget) const {
  double sum = 0;
  for (size_t tier = 0; tier < bytes.size(); ++tier) sum += std::max(0.0, bytes[tier] - allowed(budget, tier));
  return sum;
}

double Forecast::lane_seconds() const {
  double sum = 0;
  for (const auto& lanes : work) sum = std::accumulate(lanes.begin(), lanes.end(), sum);
  return sum;
}

}  // namespace spillway
