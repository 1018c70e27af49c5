#include "ops/optimizers/either_side.h"

#include <doctest/doctest.h>

#include <cmath>

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
