#include "base/ordered_workers.h"

#include <doctest/doctest.h>

#include <chrono>

using namespace spillway;

TEST_CASE("results come in the order of the items, however long each takes") {
  for (const int threads : {1, 3}) {
    OrderedWorkers<int> workers(threads, [](int& item) {
      std::this_thread::sleep_for(std::chrono::microseconds(item % 5 * 100));
      item *= 2;
    });
    for (int i = 0; i < 50; ++i) workers.push(std::make_unique<int>(i));
    for (int i = 0; i < 50; ++i) CHECK(*workers.pop() == 2 * i);
    CHECK(workers.empty());
  }
}

TEST_CASE("workers with items left end without doing them all") {
  std::atomic<int> done = 0;
  {
    OrderedWorkers<int> workers(2, [&](int&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++done;
    });
    for (int i = 0; i < 1000; ++i) workers.push(std::make_unique<int>(i));
    (void)workers.pop();
  }
  CHECK(done < 1000);
}
