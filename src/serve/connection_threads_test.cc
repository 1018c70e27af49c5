#include "serve/connection_threads.h"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <system_error>

using namespace spillway;
using namespace spillway::serve;

namespace {

std::thread refused(const std::function<void()>& /*body*/) {
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
}

}  // namespace

TEST_CASE("threads come with connections, up to their number, and the connections beyond wait") {
  constexpr int kMaxThreads = 3, kTasks = 7;
  ConnectionThreads threads(kMaxThreads);
  CHECK(threads.threads() == 1);
  std::latch all_busy(kMaxThreads), go(1);
  std::atomic<int> done = 0, at_once = 0, max_at_once = 0;
  for (int i = 0; i < kTasks; ++i) {
    threads.enqueue([&, i] {
      const int now = ++at_once;
      for (int before = max_at_once; before < now && !max_at_once.compare_exchange_weak(before, now);) continue;
      if (i < kMaxThreads) all_busy.count_down();
      go.wait();
      --at_once;
      ++done;
    });
  }
  all_busy.wait();
  CHECK(threads.threads() == kMaxThreads);
  go.count_down();
  threads.shutdown();
  CHECK(done == kTasks);
  CHECK(max_at_once == kMaxThreads);
}

TEST_CASE("a thread that is free takes the next connection, and no other is started") {
  ConnectionThreads threads(8);
  for (int i = 0; i < 20; ++i) {
    while (threads.idle_threads() == 0) std::this_thread::yield();
    std::latch done(1);
    threads.enqueue([&] { done.count_down(); });
    done.wait();
  }
  CHECK(threads.threads() == 1);
}

TEST_CASE("without a thread there is no server, and with one a refused second makes connections wait") {
  CHECK_THROWS_AS(ConnectionThreads(4, refused), std::system_error);
  int started = 0;
  ConnectionThreads threads(
      4, [&](std::function<void()> body) { return started++ == 0 ? std::thread(std::move(body)) : refused(body); });
  std::atomic<int> done = 0;
  for (int i = 0; i < 5; ++i) threads.enqueue([&] { ++done; });
  threads.shutdown();
  CHECK(done == 5);
}
