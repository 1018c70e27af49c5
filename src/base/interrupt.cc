#include "base/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <exception>

namespace spillway {
namespace {

constexpr unsigned kTidySeconds = 10;

// Flags, since a signal may come to any thread. `known`: some code has been told of it, and ends the work.
std::atomic<bool> requested = false, known = false;
std::atomic<int> finishing = 0, tidying = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a handler may not wait for a lock");

void end_now(int) { ::_exit(kInterruptedStatus); }

// Handles a signal. A terminal that goes away hangs up more than once.
void handle(int signal) {
  requested = true;
  std::signal(signal, signal == SIGHUP ? SIG_IGN : end_now);
  if (finishing > 0) return;
  if (tidying == 0) end_now(signal);
  ::alarm(kTidySeconds);
}

void end_unless_finishing(int signal) {
  if (finishing == 0) end_now(signal);
}

}  // namespace

InterruptHandlers::InterruptHandlers() {
  requested = false;
  known = false;
  std::signal(SIGALRM, end_unless_finishing);
  std::signal(SIGINT, handle);
  std::signal(SIGTERM, handle);
  std::signal(SIGUSR1, handle);
  if (std::signal(SIGHUP, handle) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

InterruptHandlers::~InterruptHandlers() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGUSR1, SIG_DFL);
  if (std::signal(SIGHUP, SIG_DFL) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  ::alarm(0);
  std::signal(SIGALRM, SIG_DFL);
}

FinishFirst::FinishFirst() {
  check_interrupt();
  ++finishing;
}
FinishFirst::FinishFirst(EvenInterrupted) noexcept { ++finishing; }
FinishFirst::~FinishFirst() { --finishing; }

TidyFirst::TidyFirst() { ++tidying; }
// A signal that came meanwhile, and that no code has checked for, ends the process now, as it would have without this.
// If an error is on its way, the process ends with that.
TidyFirst::~TidyFirst() {
  if (--tidying == 0 && requested && !known && finishing == 0 && std::uncaught_exceptions() == 0) end_now(SIGINT);
}

bool interrupt_requested() {
  if (requested) known = true;
  return requested;
}

void check_interrupt() {
  if (finishing == 0 && interrupt_requested()) throw Interrupted();
}

}  // namespace spillway
