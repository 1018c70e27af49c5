// Estimates what a plan would take from plans that differ from it in one choice each, without making it.
//
// The work of a lane and the bytes of a tier are sums over blocks and over kinds of values, or nearly so: the bytes
// that an activation policy adds do not depend on where weights live, and half of the blocks add half of them. The peak
// bytes of a step are no such sum: the values live at the end of the forward pass are not those live when all gradients
// are there. So bytes are forecast for each part of each section by itself, and the largest part counts. Forecasts
// order candidates; they decide nothing.
#pragma once

#include <array>
#include <vector>

#include "plan/candidates.h"

namespace spillway {

struct Forecast {
  LaneWork work{};
  std::vector<std::array<double, kBudgetedTiers>> bytes;  // by part of a section, as in PartBytes

  explicit Forecast(const Estimate& scheduled);

  // Returns this forecast plus `share` of the difference between two others: the effect of going from one to the other.
  [[nodiscard]] Forecast changed(const Forecast& from, const Forecast& to, double share = 1) const;
  // Does the same for the work alone, in place.
  static void change_work(LaneWork& work, const Forecast& from, const Forecast& to, double share);
  // Returns the least share of the way to `other` at which every tier fits; above 1 if even all of it is too little.
  [[nodiscard]] double share_that_fits(const Forecast& other, const Budget& budget) const;
  // Returns true if no tier holds more than `slack` times its budget.
  [[nodiscard]] bool fits(const Budget& budget, double slack) const;
  // Returns the bytes above the budget, summed over all tiers.
  [[nodiscard]] double excess(const Budget& budget) const;
  // Returns the most bytes of a tier in any part of a section.
  [[nodiscard]] double peak(Tier tier) const;
};

// Returns how long the lanes are busy, summed over all lanes.
[[nodiscard]] double lane_seconds(const LaneWork& work);

}  // namespace spillway
