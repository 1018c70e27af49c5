#include "train/interrupt.h"

#include <atomic>
#include <csignal>

namespace spillway::train {
namespace {

// The signal may come to any thread, and the trainer's asks.
std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a handler may not wait for a lock");

void handle(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  stop_requested = false;
  std::signal(SIGINT, handle);
  std::signal(SIGTERM, handle);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptGuard::requested() { return stop_requested; }

}  // namespace spillway::train
