#include "io/ring_backend.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "base/sizes.h"

namespace spillway {
namespace {

// The most attempts in a row without progress, with pauses of 1 ms to 100 ms: 9 s.
constexpr int kMaxRingAttempts = 100;

bool may_pass(int error) { return error == EAGAIN || error == EBUSY || error == ENOMEM; }

class RingBackend final : public DiskBackend {
 public:
  RingBackend(std::unique_ptr<SubmissionRing> ring, int32_t depth, Pause pause)
      : ring_(std::move(ring)), pause_(std::move(pause)) {
    reserve(pushed_, depth);
    reserve(taken_, depth);
  }

  [[nodiscard]] std::string_view name() const override { return ring_->name(); }

  void start(int32_t slot, const DiskBlock& block) override {
    pushed_.push_back(slot);
    if (error_ == 0) ring_->push(slot, block);
  }

  std::optional<Completion> finish(Wait wait) override {
    while (error_ == 0) {
      // Blocks that were started reach the kernel before anyone waits for them.
      if (auto completion = pushed_.empty() ? peek() : std::nullopt) return completion;
      if (wait == Wait::kYes || !pushed_.empty()) enter(wait);
      if (auto completion = peek()) return completion;
      if (wait == Wait::kNo && error_ == 0) return std::nullopt;
    }
    return finish_broken(wait);
  }

 private:
  std::optional<Completion> peek() {
    const auto completion = ring_->peek();
    if (!completion) return {};
    taken_.erase(std::find(taken_.begin(), taken_.end(), completion->slot));
    attempts_ = 0;
    return completion;
  }

  void enter(Wait wait) {
    const int result = ring_->enter(wait == Wait::kYes);
    if (result >= 0) {
      const auto end = pushed_.begin() + result;
      taken_.insert(taken_.end(), pushed_.begin(), end);
      pushed_.erase(pushed_.begin(), end);
      attempts_ = 0;
    } else if (may_pass(-result) && attempts_ < kMaxRingAttempts) {
      if (wait == Wait::kYes) pause();
    } else if (result != -EINTR) {
      error_ = -result;
      attempts_ = 0;
    }
  }

  void pause() {
    constexpr int64_t kMaxMilliseconds = 100;
    pause_(std::chrono::milliseconds(std::min<int64_t>(kMaxMilliseconds, 1 + attempts_ * attempts_)));
    ++attempts_;
  }

  // Blocks that the kernel has been given may still write to memory, and complete without another enter().
  std::optional<Completion> finish_broken(Wait wait) {
    for (;;) {
      if (!pushed_.empty()) return give_up(pushed_);
      if (taken_.empty()) return {};
      if (auto completion = attempts_ <= kMaxRingAttempts ? peek() : std::nullopt) return completion;
      if (attempts_ >= kMaxRingAttempts) {
        attempts_ = kMaxRingAttempts + 1;  // a late completion names a slot that is another's by then
        return give_up(taken_);
      }
      if (wait == Wait::kNo) return {};
      pause();
    }
  }
  Completion give_up(std::vector<int32_t>& slots) const {
    const int32_t slot = slots.back();
    slots.pop_back();
    return {slot, -error_};
  }

  std::unique_ptr<SubmissionRing> ring_;
  Pause pause_;
  std::vector<int32_t> pushed_, taken_;  // slots that the kernel does not have yet, oldest first; that it has
  int error_ = 0;                        // the errno that ended it
  int64_t attempts_ = 0;
};

}  // namespace

void sleep_for(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

std::unique_ptr<DiskBackend> make_ring_backend(std::unique_ptr<SubmissionRing> ring, int32_t depth, Pause pause) {
  return std::make_unique<RingBackend>(std::move(ring), depth, std::move(pause));
}

}  // namespace spillway
