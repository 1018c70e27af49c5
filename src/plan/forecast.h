// What a plan is likely to take, told from plans that differ from it in one thing each, without making it.
//
// The work of a lane and the bytes of a tier are sums over blocks and over kinds of values, or nearly so: what a
// treatment of saved activations adds does not depend on where weights live, and half of the blocks add half of it. The
// most bytes of a step are no such sum: what is live at the end of the forward pass is not what is live when all
// gradients are there. So bytes are told for each part of each section by itself, and the largest part counts.
// Forecasts put candidates in order; they decide nothing.
#pragma once

#include <array>
#include <vector>

#include "plan/candidates.h"

namespace spillway {

struct Forecast {
  LaneWork work{};
  std::vector<std::array<double, kBudgetedTiers>> bytes;  // by part of a section, as in PartBytes

  explicit Forecast(const Estimate& scheduled);

  // This forecast plus `share` of the difference between two others: what going from the one to the other would add.
  [[nodiscard]] Forecast changed(const Forecast& from, const Forecast& to, double share = 1) const;
  // The least share of the way to `other` from which on every tier fits; above 1 where even all of it is too little.
  [[nodiscard]] double share_that_fits(const Forecast& other, const Budget& budget) const;
  // Whether no tier holds more than `slack` times its budget.
  [[nodiscard]] bool fits(const Budget& budget, double slack) const;
  // The bytes above the budget, of all tiers together.
  [[nodiscard]] double excess(const Budget& budget) const;
  // The most bytes of a tier in any part of a section.
  [[nodiscard]] double peak(Tier tier) const;
  // How long the lanes are busy, one after the other.
  [[nodiscard]] double lane_seconds() const;
};

}  // namespace spillway
