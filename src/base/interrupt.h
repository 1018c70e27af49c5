// Handles the signals that ask a program to stop: SIGINT, SIGTERM, SIGHUP, which a lost terminal sends, and SIGUSR1,
// which mpirun hands on to all ranks.
//
// While InterruptHandlers live, such a signal always ends the process with exit status kInterruptedStatus. The time
// depends on what the program is doing: at once; if something unfinished would be left (TidyFirst), after destructors
// have removed it; if work must come to an end of its own (FinishFirst), after that. A second signal of a kind ends the
// process at once in any case.
#pragma once

namespace spillway {

constexpr int kInterruptedStatus = 130;

// Thrown by check_interrupt(). It is no std::exception, so that only the outermost caller handles it.
struct Interrupted {};

// Installs the handlers while it lives. A hangup that is ignored, as under nohup, stays ignored. At most one at a time.
class InterruptHandlers {
 public:
  InterruptHandlers();
  ~InterruptHandlers();
  InterruptHandlers(InterruptHandlers&&) = delete;
};

struct EvenInterrupted {};

// While it lives, a signal only raises a flag: the owner checks it, and ends with the status. The constructor throws
// Interrupted if a signal has come before, unless the work must come to an end even then. Safe from any thread.
class FinishFirst {
 public:
  FinishFirst();
  explicit FinishFirst(EvenInterrupted) noexcept;
  ~FinishFirst();
  FinishFirst(FinishFirst&&) = delete;
};

// While it lives, a signal makes check_interrupt() throw; if that is not called, the process ends with the last of
// these, and in any case after ten seconds. Safe from any thread.
class TidyFirst {
 public:
  TidyFirst();
  ~TidyFirst();
  TidyFirst(TidyFirst&&) = delete;
};

// Returns true if a signal has come.
[[nodiscard]] bool interrupt_requested();

// Throws Interrupted if a signal has come, and no FinishFirst lives. Cheap.
void check_interrupt();

}  // namespace spillway
