// Stacks that a program switches between by hand.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace spillway::testing {

// Runs `body` on a stack of its own, again and again: each resume() goes on until the body calls suspend() or returns,
// after which the next resume() starts it anew. One thread only.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();

  void resume();
  // Switches back to the caller of resume(). REQUIRES: called on the fiber's stack.
  void suspend();

 private:
  struct Context;

  static void enter();
  void switch_between(Context& from, Context& to);

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  std::unique_ptr<Context> own_, resumer_;
};

}  // namespace spillway::testing
