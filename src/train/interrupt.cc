#include "train/interrupt.h"

#include <atomic>
#include <csignal>

namespace spillway::train {
namespace {

// The signal may come to any thread, and the trainer's asks.
std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a handler may not wait for a lock");

// A terminal that goes away hangs up more than once.
void handle(int signal) {
  stop_requested = true;
  std::signal(signal, signal == SIGHUP ? SIG_IGN : SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  stop_requested = false;
  std::signal(SIGINT, handle);
  std::signal(SIGTERM, handle);
  if (std::signal(SIGHUP, handle) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // as nohup has it
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  if (std::signal(SIGHUP, SIG_DFL) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

bool InterruptGuard::requested() { return stop_requested; }

}  // namespace spillway::train
