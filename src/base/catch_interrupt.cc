#include "base/catch_interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "base/error.h"

namespace spillway {
namespace {

int caught = -1;  // an eventfd: wakes the waiting thread, whatever thread a signal comes to

void note(int) {
  const int before = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(caught, &one, sizeof(one));
  errno = before;
}

}  // namespace

CatchInterrupt::CatchInterrupt() {
  caught = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (caught < 0) throw machine_error("signals", "expected a file descriptor, got none; close some");
  before_ = std::signal(SIGINT, note);
}

CatchInterrupt::~CatchInterrupt() {
  std::signal(SIGINT, before_);
  ::close(caught);
}

bool CatchInterrupt::take() {
  uint64_t count = 0;
  return ::read(caught, &count, sizeof(count)) == sizeof(count);
}

int CatchInterrupt::fd() const { return caught; }

}  // namespace spillway
