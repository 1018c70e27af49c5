// SIGINT and SIGTERM as a request to stop at the next step.
#pragma once

namespace spillway::train {

// While it lives, the first signal raises a flag and a second one ends the process as usual. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(InterruptGuard&&) = delete;

  [[nodiscard]] static bool requested();
};

}  // namespace spillway::train
