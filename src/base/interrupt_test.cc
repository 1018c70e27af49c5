#include "base/interrupt.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

using namespace spillway;

namespace {

// Returns the wait status of a child that does `work` under the handlers, and ends with 0 if nothing ends it before.
int status_of(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    const InterruptHandlers handlers;
    try {
      work();
    } catch (const Interrupted&) {
      _exit(90);
    }
    _exit(interrupt_requested() ? 91 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a signal ends a process at once with 130, where nothing keeps it") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    CAPTURE(signal);
    CHECK(status_of([&] { raise(signal); }) == kInterruptedStatus);
  }
  CHECK(status_of([] {}) == 0);
}

TEST_CASE("what must be tidied up is unwound, and a thread that does not ask is ended all the same") {
  CHECK(status_of([] {
          const TidyFirst tidy;
          raise(SIGTERM);
          check_interrupt();
        }) == 90);
  CHECK(status_of([] {
          const TidyFirst tidy;
          raise(SIGTERM);
          while (true) pause();
        }) == kInterruptedStatus);
}

TEST_CASE("a signal while something is tidied ends a process that never asks for it when that is done") {
  CHECK(status_of([] {
          {
            const TidyFirst tidy;
            raise(SIGINT);
            const TidyFirst within;
          }
          while (true) pause();
        }) == kInterruptedStatus);
  // Code that has been told of the signal ends the work.
  CHECK(status_of([] {
          const TidyFirst tidy;
          raise(SIGINT);
          if (interrupt_requested()) _exit(92);
        }) == 92);
  CHECK(status_of([] {
          const TidyFirst tidy;
          const FinishFirst finish;
          raise(SIGINT);
          CHECK(interrupt_requested());
        }) == 91);
}

TEST_CASE("what even an interrupted program has to write is written, and the program ends after it") {
  CHECK(status_of([] {
          const TidyFirst tidy;
          raise(SIGINT);
          {
            const FinishFirst finish(EvenInterrupted{});
            check_interrupt();
          }
          try {
            check_interrupt();
          } catch (const Interrupted&) {
            _exit(93);
          }
        }) == 93);
}

TEST_CASE("work that must come to an end does, and only a second signal of a kind ends it before") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    CAPTURE(signal);
    CHECK(status_of([&] {
            const FinishFirst finish;
            raise(signal);
            check_interrupt();
          }) == 91);
  }
  CHECK(status_of([] {
          const FinishFirst finish;
          raise(SIGINT);
          raise(SIGINT);
        }) == kInterruptedStatus);
  // Shells and the kernel both send one.
  CHECK(status_of([] {
          const FinishFirst finish;
          raise(SIGHUP);
          raise(SIGHUP);
        }) == 91);
}

TEST_CASE("work does not begin once a signal has come, and a hangup under nohup is none") {
  CHECK(status_of([] {
          const TidyFirst tidy;
          raise(SIGINT);
          const FinishFirst finish;
        }) == 90);
  const auto before = std::signal(SIGHUP, SIG_IGN);
  CHECK(status_of([] { raise(SIGHUP); }) == 0);
  std::signal(SIGHUP, before);
}
