// Where kernels run: the contract between the runtime and a kind of device.
//
// Work is put into queues. A queue does its work in order; queues do not wait for each other but where they are told
// to, by events. A device that is not asynchronous does its work in the call that puts it in, so that nothing is ever
// to be waited for: the CPU. All else follows from that, and nothing above src/backend and src/ops asks what a device
// is made of.
//
// A device outlives its memory, queues and events. Each queue belongs to one thread at a time; events may be recorded
// by one thread and waited for by others, once record() has returned. Errors of work that was queued are MachineErrors
// of a later call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/operation.h"

namespace spillway {

struct KernelArgs;

// A point in the work of a queue. It may be recorded again and again; what counts is the last time.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // Whether the work before it has been done.
  [[nodiscard]] virtual bool has_happened() const = 0;
  // Returns when it has.
  virtual void await() const = 0;
  // From another event to this one. REQUIRES: both have happened, and have been recorded by this device.
  [[nodiscard]] virtual double seconds_since(const DeviceEvent& other) const = 0;
};

// Work that a queue keeps, to be done as often as it is asked to.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
};

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  // What the arguments point to must stay as it is until the work has been done.
  virtual void run(KernelFunction kernel, const KernelArgs& args) = 0;
  // Between any two of device and host memory. Host memory that is not pinned may be slow, and its copies may hold up
  // the caller.
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  // `event` happens when all that is in the queue now has been done.
  virtual void record(DeviceEvent& event) = 0;
  // What is put in from now on begins after `event`, which has been recorded, has happened.
  virtual void wait(const DeviceEvent& event) = 0;
  // Returns when everything has been done.
  virtual void finish() = 0;

  // Keeps what `put` puts into this queue, with the addresses and shapes that it has now, instead of doing it. `put`
  // runs kernels and nothing else. Null where the device has no use for this or cannot, which is said once; then
  // nothing has been put in.
  [[nodiscard]] virtual std::unique_ptr<CapturedWork> capture(const std::function<void()>& /*put*/) { return nullptr; }
  // Puts it in again, as a whole, at the cost of about one kernel. REQUIRES: this queue has captured it, and it lives
  // until it has been done.
  virtual void replay(const CapturedWork& /*work*/) {}
};

class Device {
 public:
  // Freed, or pinned no more, when it goes.
  using Memory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
  using Pinned = std::shared_ptr<const void>;

  virtual ~Device() = default;

  [[nodiscard]] virtual DeviceKind kind() const = 0;
  // "NVIDIA H100 80GB HBM3"; empty for the CPU, whose name runtime/computer.h knows.
  [[nodiscard]] virtual std::string description() const { return {}; }
  [[nodiscard]] virtual bool is_asynchronous() const = 0;
  // Whether the host may read and write device memory by its addresses, and the device the host's.
  [[nodiscard]] virtual bool shares_host_memory() const = 0;
  // Bytes of device memory that can be had now.
  [[nodiscard]] virtual int64_t free_bytes() const = 0;
  // All there is of a memory of its own; 0: not known, or the host's.
  [[nodiscard]] virtual int64_t total_bytes() const { return 0; }
  // "cuBLASLt 13.1.0, cuDNN 9.26.0": the libraries that kernels call. Times that were measured with others say little.
  [[nodiscard]] virtual std::string libraries() const { return {}; }
  // What the device's libraries have taken for themselves so far.
  [[nodiscard]] virtual int64_t library_bytes() const = 0;

  // One allocation, 256-byte aligned, of whatever its memory holds. Throws MachineError with the size where there is
  // not that much. `tier` appears in errors.
  [[nodiscard]] virtual Memory allocate(std::string_view tier, int64_t bytes) = 0;
  // Fixes host memory in place so that copies from and to it run at the link's full speed. Null where the system
  // refuses, which is said once, or where there is nothing to do.
  [[nodiscard]] virtual Pinned pin(std::span<std::byte> memory) = 0;

  [[nodiscard]] virtual std::unique_ptr<DeviceQueue> make_queue() = 0;
  [[nodiscard]] virtual std::unique_ptr<DeviceEvent> make_event() = 0;

  // Where a library offers several algorithms for a shape, which one kernels take: chosen by measuring while
  // `choosing`, when kernels may run several times and overwrite their outputs, and never changed afterwards. Kept from
  // run to run, so that results repeat (Machine::algorithms).
  using Algorithms = std::map<std::string, int32_t, std::less<>>;
  virtual void choose_algorithms(bool /*choosing*/) {}
  [[nodiscard]] virtual Algorithms algorithms() const { return {}; }
  virtual void set_algorithms(const Algorithms& /*algorithms*/) {}
};

// The CPU: its memory is the host's, and its queues do their work at once.
[[nodiscard]] Device& cpu_device();

// The device that the config key `device` names: "cpu", "cuda", "cuda:1", or "auto": a GPU where there is one. Throws
// InputError, key `device`, for a GPU that is not there and says what is missing.
[[nodiscard]] std::shared_ptr<Device> open_device(std::string_view name);
// What there is of GPUs and of what it takes to use them, for `doctor`.
struct GpuSurvey {
  struct Library {
    std::string name, version;
  };
  // Something that would help and is not there.
  struct Missing {
    std::string name, why, install;
  };
  int gpus = 0;
  std::vector<Library> libraries;
  std::vector<Missing> missing;
};
[[nodiscard]] GpuSurvey survey_gpus();

// The number of the GPU that "cuda" or "cuda:N" names; nothing for any other text.
[[nodiscard]] std::optional<int32_t> gpu_of(std::string_view name);

}  // namespace spillway
