// A device that works on its own time, in host memory, with the CPU's kernels: each queue is a thread that begins a
// piece of work some random microseconds after it could. What forgets to wait for something computes wrongly here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "backend/device.h"
#include "base/random.h"

namespace spillway::testing {

class DelayedDevice final : public Device {
 public:
  // `most_microseconds`: of a delay.
  DelayedDevice(uint64_t seed, uint32_t most_microseconds) : seed_(seed), most_microseconds_(most_microseconds) {}

  [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCpu; }
  [[nodiscard]] bool is_asynchronous() const override { return true; }
  // By address the host could reach its memory; that it does not is what is tested.
  [[nodiscard]] bool shares_host_memory() const override { return false; }
  [[nodiscard]] int64_t free_bytes() const override { return cpu_device().free_bytes(); }
  [[nodiscard]] int64_t library_bytes() const override { return 0; }
  [[nodiscard]] Memory allocate(std::string_view tier, int64_t bytes) override {
    return cpu_device().allocate(tier, bytes);
  }
  [[nodiscard]] Pinned pin(std::span<std::byte>) override { return {}; }
  [[nodiscard]] std::unique_ptr<DeviceQueue> make_queue() override;
  [[nodiscard]] std::unique_ptr<DeviceEvent> make_event() override;

 private:
  uint64_t seed_;
  uint32_t most_microseconds_;
  std::atomic<uint64_t> queues_{0};
};

}  // namespace spillway::testing
