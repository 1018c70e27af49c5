// The clock of benchmarks that may run on one thread: its CPU time then, so that what else runs on the machine counts
// only by what it does to caches and memory.
#pragma once

#include <time.h>

namespace spillway::bench {

inline clockid_t bench_clock = CLOCK_MONOTONIC;

inline void use_clock_for(int threads) { bench_clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC; }

// Seconds.
inline double now() {
  timespec time{};
  clock_gettime(bench_clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace spillway::bench
