// Signals as a request to stop at the next step: SIGINT, SIGTERM, and SIGHUP, which a lost terminal sends.
#pragma once

namespace spillway::train {

// While it lives, the first signal raises a flag and a second one ends the process as usual. A hangup that is ignored,
// as under nohup, stays so. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(InterruptGuard&&) = delete;

  [[nodiscard]] static bool requested();
};

}  // namespace spillway::train
