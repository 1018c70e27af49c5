// A count in memory that processes share, for which they wait without taking a core.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include "base/cpu_relax.h"

namespace spillway {

// One process raises it, others wait. It may wrap around: counts that are compared differ by less than 2^31.
class SharedCount {
 public:
  [[nodiscard]] bool has_reached(uint32_t count) const {
    return static_cast<int32_t>(value_.load(std::memory_order_acquire) - count) >= 0;
  }

  // Makes what this thread has written visible to whoever sees the new count.
  void raise_to(uint32_t count) {
    value_.store(count, std::memory_order_release);
    ::syscall(SYS_futex, &value_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  // Returns true if the count is reached; false after about `seconds`, or after a signal.
  [[nodiscard]] bool wait_for(uint32_t count, double seconds) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (has_reached(count)) return true;
      cpu_relax();
    }
    const uint32_t seen = value_.load(std::memory_order_acquire);
    if (static_cast<int32_t>(seen - count) >= 0) return true;
    const auto whole = static_cast<time_t>(seconds);
    const timespec limit = {whole, static_cast<long>(1e9 * (seconds - static_cast<double>(whole)))};
    ::syscall(SYS_futex, &value_, FUTEX_WAIT, seen, &limit, nullptr, 0);
    return has_reached(count);
  }

 private:
  static constexpr int kSpins = 200;  // some microseconds: less than a sleep and its end take

  std::atomic<uint32_t> value_{0};
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);
};

}  // namespace spillway
