#include "backend/testing/fiber.h"

#include <ucontext.h>

#include "base/error.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace spillway::testing {
namespace {

// The size is enough for a kernel under AddressSanitizer, which keeps many locals apart.
constexpr size_t kStackBytes = size_t{256} << 10;

Fiber* entered = nullptr;

// Compilers require the two halves of a jump in two functions. AddressSanitizer takes a call that never returns for the
// end of this stack, so it is not told.
[[gnu::noipa, gnu::no_sanitize("address")]] void jump(void** registers) { __builtin_longjmp(registers, 1); }

}  // namespace

// ucontext makes a stack; the builtin jumps then switch in a few instructions, where swapcontext asks the kernel.
struct Fiber::Context {
  void* registers[5] = {};
  const void* stack = nullptr;  // lowest address, for AddressSanitizer
  size_t stack_bytes = 0;
};

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)),
      stack_(new std::byte[kStackBytes]),
      own_(std::make_unique<Context>()),
      resumer_(std::make_unique<Context>()) {
  own_->stack = stack_.get();
  own_->stack_bytes = kStackBytes;
  ucontext_t start;
  SPILLWAY_CHECK(getcontext(&start) == 0, "no context for a fiber");
  start.uc_stack.ss_sp = stack_.get();
  start.uc_stack.ss_size = kStackBytes;
  makecontext(&start, enter, 0);
  entered = this;
  if (__builtin_setjmp(resumer_->registers) == 0) setcontext(&start);
}

Fiber::~Fiber() = default;

void Fiber::enter() {
  Fiber* self = entered;
  if (__builtin_setjmp(self->own_->registers) == 0) jump(self->resumer_->registers);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &self->resumer_->stack, &self->resumer_->stack_bytes);
#endif
  for (;;) {
    self->body_();
    self->suspend();
  }
}

[[gnu::noinline]] void Fiber::switch_between(Context& from, Context& to) {
#ifdef __SANITIZE_ADDRESS__
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, to.stack, to.stack_bytes);
#endif
  if (__builtin_setjmp(from.registers) == 0) jump(to.registers);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack, &to.stack, &to.stack_bytes);
#endif
}

void Fiber::resume() { switch_between(*resumer_, *own_); }
void Fiber::suspend() { switch_between(*own_, *resumer_); }

}  // namespace spillway::testing
