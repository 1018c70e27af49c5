// A device that works on its own time, in host memory, with the CPU's kernels: each queue is a thread that begins a
// piece of work some random microseconds after it could. Code that forgets to wait for something computes wrong results
// here. It can break as a GPU does: then a call that waits for the end of work gets an error.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>

#include "backend/device.h"
#include "base/random.h"
#include "base/sizes.h"

namespace spillway::testing {

class DelayedDevice final : public Device {
 public:
  // `max_microseconds` bounds a delay. From piece of work `fail_at` on, over all queues, finish(), await() and
  // has_happened() throw MachineError, the first two once the work is over.
  DelayedDevice(uint64_t seed, uint32_t max_microseconds, int64_t fail_at = std::numeric_limits<int64_t>::max())
      : seed_(seed), max_microseconds_(max_microseconds), health_(std::make_shared<Health>(fail_at)) {}

  [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCpu; }
  [[nodiscard]] bool is_asynchronous() const override { return true; }
  // The host could reach its memory by address; tests check that it does not.
  [[nodiscard]] bool shares_host_memory() const override { return false; }
  [[nodiscard]] int64_t free_bytes() const override { return cpu_device().free_bytes(); }
  [[nodiscard]] int64_t library_bytes() const override { return 0; }
  [[nodiscard]] Memory allocate(std::string_view tier, int64_t bytes) override {
    Memory memory = cpu_device().allocate(tier, bytes);
    if (memory) fill_memory(memory.get(), 0xFF, bytes);  // NaN, as a real device might hold
    return memory;
  }
  [[nodiscard]] Pinned pin(std::span<std::byte>) override { return {}; }
  [[nodiscard]] std::unique_ptr<DeviceQueue> make_queue() override;
  [[nodiscard]] std::unique_ptr<DeviceEvent> make_event() override;

  // Returns how often queues have been given captured work.
  [[nodiscard]] int64_t replays() const;

  class Health {
   public:
    explicit Health(int64_t fail_at) : left_(fail_at) {}
    void count() { --left_; }
    void check() const;  // throws MachineError once the work that was to fail has been done
    void count_replay() { ++replays_; }
    [[nodiscard]] int64_t replays() const { return replays_; }

   private:
    std::atomic<int64_t> left_, replays_{0};
  };

 private:
  uint64_t seed_;
  uint32_t max_microseconds_;
  std::shared_ptr<Health> health_;
  std::atomic<uint64_t> queues_{0};
};

}  // namespace spillway::testing
