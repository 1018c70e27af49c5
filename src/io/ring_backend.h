// A back end over a submission ring such as io_uring's, without the ring itself: tracks which blocks the kernel has,
// and finishes them when it takes no more.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "io/disk_backend.h"

namespace spillway {

class SubmissionRing {
 public:
  virtual ~SubmissionRing() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Appends a block for the kernel, which sees it with the next enter().
  virtual void push(int32_t slot, const DiskBlock& block) = 0;
  // Hands over the pushed blocks, oldest first, and with `wait` returns when there is a completion or a signal. Returns
  // how many blocks the kernel has taken, or -errno; the others stay.
  [[nodiscard]] virtual int enter(bool wait) = 0;
  // Returns a block that is finished, if there is one.
  [[nodiscard]] virtual std::optional<DiskBackend::Completion> peek() = 0;
};

using Pause = std::function<void(std::chrono::milliseconds)>;
void sleep_for(std::chrono::milliseconds time);

// Errors of enter() that may pass (EAGAIN, EBUSY, ENOMEM) are retried for some seconds. After that, and at once after
// any other error, every block that the kernel does not have finishes with that error, and so does every later one;
// those that it has finish as they do, or with the error after some seconds more.
[[nodiscard]] std::unique_ptr<DiskBackend> make_ring_backend(std::unique_ptr<SubmissionRing> ring, int32_t depth,
                                                             Pause pause = sleep_for);

}  // namespace spillway
