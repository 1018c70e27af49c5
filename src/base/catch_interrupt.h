// Catches Ctrl-C for a program that goes on after it.
#pragma once

namespace spillway {

// While it lives, SIGINT, which Ctrl-C sends, does not end the process and is not visible to base/interrupt.h: the
// owner takes it. Other signals are unaffected. At most one at a time.
class CatchInterrupt {
 public:
  // Throws MachineError if there is no file descriptor left.
  CatchInterrupt();
  ~CatchInterrupt();
  CatchInterrupt(CatchInterrupt&&) = delete;

  // Returns true if a signal has come since the last call.
  [[nodiscard]] bool take();
  // Returns a descriptor that is readable, as poll() says, while a signal waits to be taken.
  [[nodiscard]] int fd() const;

 private:
  void (*before_)(int);
};

}  // namespace spillway
