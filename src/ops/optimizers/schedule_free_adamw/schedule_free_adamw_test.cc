// The formula is compared with its library's steps in library_goldens_test.cc.
#include "ops/optimizers/schedule_free_adamw/schedule_free_adamw.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/optimizers/schedule_free_adamw/formula-inl.h"
#include "ops/optimizers/schedule_free_adamw/numbers.h"

using namespace spillway::ops;

namespace {

// Returns the shares of steps with these rates, as schedulefree computes them in float64.
std::vector<double> shares(const std::vector<float>& rates, const AverageConstants& c) {
  double sum = 0, rate_max = -1;
  std::vector<double> result;
  for (size_t i = 0; i < rates.size(); ++i) {
    rate_max = std::max<double>(rate_max, rates[i]);
    const double weight = std::pow(static_cast<double>(i + 1), c.r) * std::pow(rate_max, c.weight_lr_power);
    sum += weight;
    result.push_back(sum == 0 ? 0 : weight / sum);
  }
  return result;
}

}  // namespace

TEST_CASE("the share of a step follows from the last one's as from the sum of all weights") {
  const ScheduleFreeFormula::Options options(options_of(kScheduleFreeAdamw));
  std::vector<float> rates(500, 3e-4F);
  rates[0] = rates[1] = 0;
  for (size_t i = 2; i < 40; ++i) rates[i] = 3e-4F * static_cast<float>(i - 1) / 39.0F;
  for (size_t i = 300; i < 500; ++i) rates[i] = 1e-5F;  // lower than the largest so far
  for (const double r : {0.0, 0.5, 2.0}) {
    for (const double power : {0.0, 1.0, 2.0, 2.5}) {
      CAPTURE(r);
      CAPTURE(power);
      const AverageConstants c{r, power};
      const std::vector<double> want = shares(rates, c);
      AverageState state;
      for (size_t i = 0; i < rates.size(); ++i) {
        state = next_average(c, state, rates[i], static_cast<int32_t>(i + 1));
        const double share = ScheduleFreeFormula(options, {rates[i], 1, &state.steps}).share;
        CHECK(std::abs(share - want[i]) <= 1e-5 * want[i]);
      }
    }
  }
}

TEST_CASE("steps of one rate are counted, however many") {
  AverageState state;
  for (int32_t step = 1; step <= 1'000'000; ++step) state = next_average({0, 2}, state, 1e-6F, step);
  CHECK(state.steps == 1e6F);
}

TEST_CASE("without a beta1 there is nothing to evaluate") {
  CHECK(kScheduleFreeAdamw.conflict(options_of(kScheduleFreeAdamw)).empty());
  CHECK(kScheduleFreeAdamw.conflict(options_of(kScheduleFreeAdamw, {{"beta1", 0.0}})) == "beta1 above 0");
}
