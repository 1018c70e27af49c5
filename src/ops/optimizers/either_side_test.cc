#include "ops/optimizers/either_side.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace spillway::ops;

TEST_CASE("powers, logarithms and exponentials of steps agree with the library's to some last places") {
  const auto close = [](double got, double want) { return std::abs(got - want) <= 2e-13 * std::abs(want); };
  for (const double x : {1e-12, 0.1, 0.75, 0.9, 0.999, 0.9999, 1.0, 1.5, 2.0, 3.0, 1000.0, 2147483647.0}) {
    CAPTURE(x);
    CHECK((close(logarithm(x), std::log(x)) || x == 1.0));
    for (const double y : {-3.0, -0.8, -0.1, 0.0, 0.5, 2.0}) CHECK(close(real_power(x, y), std::pow(x, y)));
  }
  CHECK(logarithm(1) == 0);
  for (const double x : {-300.0, -1.0, -1e-9, 0.0, 1e-5, 0.3, 1.0, 20.0}) {
    CAPTURE(x);
    CHECK(close(exponential(x), std::exp(x)));
  }
}

TEST_CASE("powers, logarithms and exponentials of any number end") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN(),
                   kLeast = std::numeric_limits<double>::denorm_min(), kMost = std::numeric_limits<double>::max();
  const auto as_library = [](double got, double want) {
    return std::isnan(want) ? std::isnan(got) : got == want || std::abs(got - want) <= 1e-12 * std::abs(want);
  };
  for (const double x : {0.0, -0.0, -0.125, -1.0, -kMost, -kInfinity, kInfinity, kNan, kLeast, 1e-310, kMost}) {
    CAPTURE(x);
    CHECK(as_library(logarithm(x), std::log(x)));
    CHECK(as_library(exponential(x), std::exp(x)));
    CHECK((!(x < 0) || std::isnan(real_power(x, 2))));
    CHECK((!std::isnan(x) || std::isnan(real_power(2, x))));
  }
  for (const double x : {-1e300, -1001.0, -999.0, -745.5, 710.0, 999.0, 1000.0, 1e300})
    CHECK(as_library(exponential(x), std::exp(x)));
  CHECK(real_power(0, 2) == 0);
  CHECK(real_power(0, -0.8) == kInfinity);
}
