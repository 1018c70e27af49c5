// Ctrl-C for a program that goes on after it.
#pragma once

namespace spillway {

// While it lives, SIGINT, which Ctrl-C sends, ends nothing and counts for nobody else (base/interrupt.h): its owner
// takes it. Other signals stay as they were. One at a time.
class CatchInterrupt {
 public:
  // Throws MachineError where there is no file descriptor left.
  CatchInterrupt();
  ~CatchInterrupt();
  CatchInterrupt(CatchInterrupt&&) = delete;

  // Whether one has come since the last call.
  [[nodiscard]] bool take();
  // Can be read, as poll() says, as long as one waits to be taken.
  [[nodiscard]] int fd() const;

 private:
  void (*before_)(int);
};

}  // namespace spillway
