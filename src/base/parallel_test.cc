#include "base/parallel.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "base/index.h"
#include "base/shared_cpus.h"

using namespace spillway;

TEST_CASE("every item is visited exactly once, whatever the number of threads") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t items : {0, 1, 7, 1000}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<int> visits(static_cast<size_t>(items), 0);
        pool.parallel_for(items, 3, [&](int64_t begin, int64_t end, int thread) {
          REQUIRE(thread < threads);
          for (int64_t i = begin; i < end; ++i) ++nth(visits, i);
        });
        for (const int count : visits) CHECK(count == 1);
      }
    }
  }
}

namespace {

std::atomic<bool> g_is_held{false}, g_may_go{false};

// Stands for other processes that keep a worker from a core.
void hold_thread(int /*signal*/) {
  g_is_held = true;
  while (!g_may_go) usleep(100);
}

}  // namespace

TEST_CASE("a loop waits for its chunks, not for workers") {
  ThreadPool pool(2);
  std::atomic<bool> worker_is_known{false};
  pthread_t worker{};
  while (!worker_is_known) {
    pool.parallel_for(8, 1, [&](int64_t /*begin*/, int64_t /*end*/, int thread) {
      if (thread == 0) {
        usleep(100);
      } else if (!worker_is_known) {
        worker = pthread_self();
        worker_is_known = true;
      }
    });
  }
  struct sigaction hold {};
  struct sigaction before {};
  hold.sa_handler = hold_thread;
  sigaction(SIGUSR1, &hold, &before);
  pthread_kill(worker, SIGUSR1);
  while (!g_is_held) usleep(100);

  std::atomic<bool> gave_up{false};
  std::thread watchdog([&] {  // so that a pool that waits for its worker fails and does not hang
    for (int i = 0; i < 1000 && !g_may_go; ++i) usleep(10'000);
    gave_up = !g_may_go;
    g_may_go = true;
  });
  int64_t items = 0;
  for (int repeat = 0; repeat < 100; ++repeat) {
    pool.parallel_for(8, 1, [&](int64_t begin, int64_t end, int /*thread*/) { items += end - begin; });
  }
  g_may_go = true;
  watchdog.join();
  CHECK(!gave_up);
  CHECK(items == 800);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("processes of a host share its CPUs, unless each is bound to its own") {
  const auto allowed = [](int cpus) {  // beside a cgroup's quota
    return static_cast<int>(std::max(1.0, std::min<double>(cpus, std::ceil(cpu_quota()))));
  };
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  const double quota = cpu_quota();
  share_cpus(2);
  CHECK(cpu_quota() == quota / 2);
  CHECK(available_cpus() == allowed(CPU_COUNT(&before) / 2));
  cpu_set_t fewer = before;
  for (size_t cpu = 0; CPU_COUNT(&fewer) == CPU_COUNT(&before); ++cpu) CPU_CLR(cpu, &fewer);
  if (CPU_COUNT(&fewer) > 0) {
    REQUIRE(sched_setaffinity(0, sizeof(fewer), &fewer) == 0);
    CHECK(available_cpus() == allowed(CPU_COUNT(&fewer)));
    CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
  }
  share_cpus(1);
  CHECK(available_cpus() == allowed(CPU_COUNT(&before)));
}
