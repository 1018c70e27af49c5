#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/vector_test.cc"
#include <hwy/foreach_target.h>

#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void exponentials(const float* x, float* out, int64_t count) {
  map(
      0, count, [](Vector v) HWY_ATTR { return exp_of(v); }, out, x);
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/testing.h"

namespace spillway::ops {
namespace {

HWY_EXPORT(exponentials);

std::vector<float> exponentials_of(const std::vector<float>& x) {
  std::vector<float> out(x.size());
  HWY_DYNAMIC_DISPATCH(exponentials)(x.data(), out.data(), std::ssize(x));
  return out;
}

}  // namespace
}  // namespace spillway::ops

TEST_CASE("exponentials agree with float64 to two units in the last place, on every instruction set") {
  using spillway::ops::exponentials_of;
  std::vector<float> x;
  for (double at = -87.3; at < 88.3; at += 1.7e-3) x.push_back(static_cast<float>(at));
  spillway::ops::testing::for_each_instruction_set([&] {
    const std::vector<float> got = exponentials_of(x);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(static_cast<double>(x[i]));
      worst = std::max(worst, std::fabs(got[i] - want) / want);
    }
    CHECK(worst < 0x1p-22);
    CHECK(worst > 0);
  });
}

TEST_CASE("exponentials of what is far from zero are zero or infinite, and NaN stays NaN") {
  using spillway::ops::exponentials_of;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  spillway::ops::testing::for_each_instruction_set([&] {
    CHECK(exponentials_of({0, -0.0f, -87.4f, -1000, -kInfinity, 89, 1000, kInfinity}) ==
          std::vector<float>{1, 1, 0, 0, 0, kInfinity, kInfinity, kInfinity});
    CHECK(std::isnan(exponentials_of({std::numeric_limits<float>::quiet_NaN()}).front()));
  });
}

#endif  // HWY_ONCE
