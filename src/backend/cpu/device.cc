#include "backend/device.h"
#include "base/sizes.h"

#include "backend/arena.h"
#include "backend/host_memory.h"
#include "backend/kernel.h"
#include "base/error.h"

namespace spillway {
namespace {

// An event on the CPU: everything before it has been done when it is recorded.
class CpuEvent final : public DeviceEvent {
 public:
  [[nodiscard]] bool has_happened() const override { return true; }
  void await() const override {}
  [[nodiscard]] double seconds_since(const DeviceEvent&) const override { return 0; }
};

class CpuQueue final : public DeviceQueue {
 public:
  void run(KernelFunction kernel, const KernelArgs& args) override { kernel(args); }
  void copy(void* to, const void* from, int64_t bytes) override { copy_memory(to, from, bytes); }
  void record(DeviceEvent&) override {}
  void wait(const DeviceEvent&) override {}
  void finish() override {}
};

class CpuDevice final : public Device {
 public:
  [[nodiscard]] DeviceKind kind() const override { return DeviceKind::kCpu; }
  [[nodiscard]] bool is_asynchronous() const override { return false; }
  [[nodiscard]] bool shares_host_memory() const override { return true; }
  [[nodiscard]] int64_t free_bytes() const override { return available_memory_bytes(); }
  [[nodiscard]] int64_t library_bytes() const override { return 0; }

  [[nodiscard]] Memory allocate(std::string_view tier, int64_t bytes) override {
    if (bytes == 0) return {};
    auto arena = std::make_shared<Arena>(tier, bytes);
    return {arena->at(0), [arena](std::byte*) {}};
  }
  [[nodiscard]] Pinned pin(std::span<std::byte>) override { return {}; }
  [[nodiscard]] std::unique_ptr<DeviceQueue> make_queue() override { return std::make_unique<CpuQueue>(); }
  [[nodiscard]] std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<CpuEvent>(); }
};

}  // namespace

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

}  // namespace spillway
