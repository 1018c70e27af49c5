// Distributes work items of unequal size: a thread takes the next item when it is done with one.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/parallel.h"

namespace spillway::cpu {

// Calls body(item, thread) for every item in [0, items), in order of their start. Allocates nothing.
template <typename Body>
void for_each(ThreadPool& pool, int64_t items, const Body& body) {
  std::atomic<int64_t> next{0};
  pool.parallel_for(std::min<int64_t>(pool.threads(), items), 1, [&](int64_t, int64_t, int thread) {
    for (int64_t item = next++; item < items; item = next++) body(item, thread);
  });
}

}  // namespace spillway::cpu
