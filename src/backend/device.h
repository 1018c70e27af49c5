// The contract between the runtime and a kind of device that runs kernels.
//
// Work is put into queues. A queue does its work in order; queues wait for each other only if events tell them to. A
// device that is not asynchronous, the CPU, does its work in the call that puts it in, so that there is never anything
// to wait for. All else follows from that, and code above src/backend and src/ops does not depend on the kind of
// device.
//
// A device outlives its memory, queues and events. Each queue belongs to one thread at a time; events may be recorded
// by one thread and waited for by others, once record() has returned. Errors of queued work are thrown as MachineErrors
// by a later call.
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

// A point in the work of a queue. It may be recorded again and again; the last time counts.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // Returns true if the work before it has been done.
  [[nodiscard]] virtual bool has_happened() const = 0;
  // Returns when it has happened.
  virtual void await() const = 0;
  // Returns the seconds from another event to this one. REQUIRES: both have happened, and this device recorded both.
  [[nodiscard]] virtual double seconds_since(const DeviceEvent& other) const = 0;
};

// Work that a queue keeps and can repeat as often as needed.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
};

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  // Runs a kernel. The memory that the arguments point to must not change until the work has been done.
  virtual void run(KernelFunction kernel, const KernelArgs& args) = 0;
  // Copies between any two of device and host memory. Copies of host memory that is not pinned may be slow, and may
  // block the caller.
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  // Records `event`, which happens when all work that is in the queue now has been done.
  virtual void record(DeviceEvent& event) = 0;
  // Makes work that is put in from now on wait until `event`, which has been recorded, has happened.
  virtual void wait(const DeviceEvent& event) = 0;
  // Returns when all work has been done.
  virtual void finish() = 0;

  // Captures the work that `put` puts into this queue, with its present addresses and shapes, instead of doing it.
  // `put` must only run kernels. Returns null, with nothing put in, if the device has no use for this or cannot, which
  // is logged once.
  [[nodiscard]] virtual std::unique_ptr<CapturedWork> capture(const std::function<void()>& /*put*/) { return nullptr; }
  // Puts the work in again, as a whole, at the cost of about one kernel. REQUIRES: this queue captured it, and it lives
  // until it has been done.
  virtual void replay(const CapturedWork& /*work*/) {}
};

class Device {
 public:
  // Owners of memory: destruction frees it, or unpins it.
  using Memory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
  using Pinned = std::shared_ptr<const void>;

  virtual ~Device() = default;

  [[nodiscard]] virtual DeviceKind kind() const = 0;
  // Returns a name such as "NVIDIA H100 80GB HBM3"; empty for the CPU, whose name runtime/computer.h knows.
  [[nodiscard]] virtual std::string description() const { return {}; }
  [[nodiscard]] virtual bool is_asynchronous() const = 0;
  // Returns true if the host may access device memory by its addresses, and the device the host's.
  [[nodiscard]] virtual bool shares_host_memory() const = 0;
  // Returns the bytes of device memory that are available now.
  [[nodiscard]] virtual int64_t free_bytes() const = 0;
  // Returns the total bytes of a memory of its own; 0: not known, or the host's.
  [[nodiscard]] virtual int64_t total_bytes() const { return 0; }
  // Returns the libraries that kernels call, "cuBLASLt 13.1.0, cuDNN 9.26.0". Times measured with others say little.
  [[nodiscard]] virtual std::string libraries() const { return {}; }
  // Returns the bytes that the device's libraries have taken for themselves so far.
  [[nodiscard]] virtual int64_t library_bytes() const = 0;

  // Makes one allocation, 256-byte aligned, with undefined content. Throws MachineError with the size if there is not
  // that much. `tier` appears in errors.
  [[nodiscard]] virtual Memory allocate(std::string_view tier, int64_t bytes) = 0;
  // Fixes host memory in place so that copies from and to it run at the link's full speed. Returns null if the system
  // refuses, which is logged once, or if there is nothing to do.
  [[nodiscard]] virtual Pinned pin(std::span<std::byte> memory) = 0;

  [[nodiscard]] virtual std::unique_ptr<DeviceQueue> make_queue() = 0;
  [[nodiscard]] virtual std::unique_ptr<DeviceEvent> make_event() = 0;

  // The algorithms that kernels use for shapes for which a library offers several. They are chosen by measuring while
  // `choosing`, when kernels may run several times and overwrite their outputs, and never changed afterwards. They are
  // kept from run to run, so that results repeat (Machine::algorithms).
  using Algorithms = std::map<std::string, int32_t, std::less<>>;
  virtual void choose_algorithms(bool /*choosing*/) {}
  [[nodiscard]] virtual Algorithms algorithms() const { return {}; }
  virtual void set_algorithms(const Algorithms& /*algorithms*/) {}
};

// Returns the CPU as a device: its memory is the host's, and its queues do their work at once.
[[nodiscard]] Device& cpu_device();

// Opens the device that the config key `device` names: "cpu", "cuda", "cuda:1", or "auto": a GPU if there is one.
// Throws InputError, key `device`, for a GPU that is not there and says what is missing.
[[nodiscard]] std::shared_ptr<Device> open_device(std::string_view name);
// The GPUs of this machine and the libraries needed to use them, for `doctor`.
struct GpuSurvey {
  struct Library {
    std::string name, version;
    std::string path = {};  // of one that is opened when it is needed
  };
  // A library that would help and is missing.
  struct Missing {
    std::string name, why, install;
  };
  int gpus = 0;
  std::vector<Library> libraries;
  std::vector<Missing> missing;
};
[[nodiscard]] GpuSurvey survey_gpus();

// Returns the number of the GPU that "cuda" or "cuda:N" names; nullopt for any other text.
[[nodiscard]] std::optional<int32_t> gpu_of(std::string_view name);

}  // namespace spillway
