#include "report/run_record.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/random.h"

using namespace spillway;

TEST_CASE("the running median is the middle of the numbers so far, in order") {
  for (const uint32_t different : {1u, 3u, 1000u}) {
    RunningMedian median;
    median.reserve(100);
    RandomStream random(different, 0);
    std::vector<double> sorted;
    for (int i = 0; i < 200; ++i) {
      const double number = random.below(different);
      median.add(number);
      sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), number), number);
      REQUIRE(median.value() == sorted[sorted.size() / 2]);
    }
  }
}
