// The signals that ask a program to stop: SIGINT, SIGTERM, and SIGHUP, which a lost terminal sends.
//
// While InterruptHandlers live, such a signal always ends the process with exit status kInterruptedStatus. When depends
// on what the program is doing: at once; where something unfinished would be left (TidyFirst), after destructors have
// removed it; where work must come to an end of its own (FinishFirst), after that. A second signal of a kind ends the
// process at once in any case.
#pragma once

namespace spillway {

constexpr int kInterruptedStatus = 130;

// What check_interrupt() throws. No std::exception: nobody but the caller of all may take it for an error to handle.
struct Interrupted {};

// A hangup that is ignored, as under nohup, stays so. One at a time.
class InterruptHandlers {
 public:
  InterruptHandlers();
  ~InterruptHandlers();
  InterruptHandlers(InterruptHandlers&&) = delete;
};

struct EvenInterrupted {};

// While it lives, a signal only raises a flag: the owner asks for it, and ends with the status. Throws Interrupted
// where a signal has come before, but for work that even then must come to an end. Any thread.
class FinishFirst {
 public:
  FinishFirst();
  explicit FinishFirst(EvenInterrupted) noexcept;
  ~FinishFirst();
  FinishFirst(FinishFirst&&) = delete;
};

// While it lives, a signal lets check_interrupt() throw; where nobody asks, the process ends with the last of these,
// and in any case after ten seconds. Any thread.
class TidyFirst {
 public:
  TidyFirst();
  ~TidyFirst();
  TidyFirst(TidyFirst&&) = delete;
};

// Whether a signal has come.
[[nodiscard]] bool interrupt_requested();

// Throws Interrupted where a signal has come, and no FinishFirst lives. Cheap.
void check_interrupt();

}  // namespace spillway
