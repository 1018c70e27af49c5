#include "base/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace spillway {
namespace {

constexpr unsigned kTidySeconds = 10;

// A signal may come to any thread.
std::atomic<bool> requested = false;
std::atomic<int> finishing = 0, tidying = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a handler may not wait for a lock");

void end_now(int) { ::_exit(kInterruptedStatus); }

// A terminal that goes away hangs up more than once.
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
  std::signal(SIGALRM, end_unless_finishing);
  std::signal(SIGINT, handle);
  std::signal(SIGTERM, handle);
  if (std::signal(SIGHUP, handle) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

InterruptHandlers::~InterruptHandlers() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  if (std::signal(SIGHUP, SIG_DFL) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  ::alarm(0);
  std::signal(SIGALRM, SIG_DFL);
}

FinishFirst::FinishFirst() {
  check_interrupt();
  ++finishing;
}
FinishFirst::~FinishFirst() { --finishing; }

TidyFirst::TidyFirst() { ++tidying; }
TidyFirst::~TidyFirst() { --tidying; }

bool interrupt_requested() { return requested; }

void check_interrupt() {
  if (requested && finishing == 0) throw Interrupted();
}

}  // namespace spillway
