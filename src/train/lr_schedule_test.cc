#include "train/lr_schedule.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace spillway;
using namespace spillway::train;

TEST_CASE("warmup rises from zero and every schedule continues from the peak") {
  for (const config::LrScheduler kind :
       {config::LrScheduler::kConstantWithWarmup, config::LrScheduler::kLinear, config::LrScheduler::kCosine}) {
    const LrSchedule schedule{kind, 0.5, 4, 20};
    CHECK(schedule.at(0) == 0);
    CHECK(schedule.at(1) == doctest::Approx(0.125));
    CHECK(schedule.at(4) == doctest::Approx(0.5));
  }
}

// Values of transformers' get_linear_schedule_with_warmup and get_cosine_schedule_with_warmup at a peak of 1, computed
// by their formulas: (20 - s) / 16 and (1 + cos(pi (s - 4) / 16)) / 2.
TEST_CASE("linear and cosine fall to zero") {
  const LrSchedule linear{config::LrScheduler::kLinear, 1, 4, 20}, cosine{config::LrScheduler::kCosine, 1, 4, 20};
  CHECK(linear.at(12) == doctest::Approx(0.5));
  CHECK(linear.at(19) == doctest::Approx(0.0625));
  CHECK(linear.at(20) == 0);
  CHECK(cosine.at(12) == doctest::Approx(0.5));
  CHECK(cosine.at(8) == doctest::Approx(0.8535533906));
  CHECK(cosine.at(20) == doctest::Approx(0));
}

TEST_CASE("constant ignores warmup") { CHECK(LrSchedule{config::LrScheduler::kConstant, 3, 10, 20}.at(0) == 3); }
