// Waiting for what another thread or process does, however long a machine under load delays it.
#pragma once

#include <chrono>
#include <thread>

namespace spillway::testing {

// The time that tests wait before they fail: longer than load explains, and within the limit that ctest sets for a
// test.
inline constexpr std::chrono::seconds kPatience{240};

// Returns true as soon as the condition holds, and false where it has not for that long.
template <typename Condition>
[[nodiscard]] bool comes_true(const Condition& condition) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace spillway::testing
