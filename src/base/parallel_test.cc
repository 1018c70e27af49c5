#include "base/parallel.h"

#include <doctest/doctest.h>

#include <vector>

using namespace spillway;

TEST_CASE("every item is visited exactly once, whatever the number of threads") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t items : {0, 1, 7, 1000}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<int> visits(static_cast<size_t>(items), 0);
        pool.parallel_for(items, 3, [&](int64_t begin, int64_t end, int thread) {
          REQUIRE(thread < threads);
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        for (const int count : visits) CHECK(count == 1);
      }
    }
  }
}
