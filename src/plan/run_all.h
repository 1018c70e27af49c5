// Runs independent tasks of planning on several threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <vector>

#include "base/index.h"
#include "base/parallel.h"
#include "base/sizes.h"

namespace spillway {

// Runs task(0) to task(count - 1), in no order. Rethrows the error of the first of those that failed.
template <typename Task>
void run_all(int64_t count, int threads, const Task& task) {
  auto errors = make_vector<std::exception_ptr>(count);
  ThreadPool pool(static_cast<int>(std::clamp<int64_t>(count, 1, threads)));
  pool.parallel_for(count, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      try {
        task(i);
      } catch (...) {
        nth(errors, i) = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace spillway
