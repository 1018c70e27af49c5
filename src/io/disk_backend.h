// Moves blocks to the disk and back: by io_uring, or by threads in pread and pwrite if io_uring is refused.
//
// A DiskQueue cuts requests into blocks and hands them to one of these. A backend knows neither stripes nor requests,
// allocates nothing after construction, and belongs to the thread of its queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace spillway {

enum class DiskDirection : uint8_t { kRead, kWrite };

struct DiskBlock {
  DiskDirection direction = DiskDirection::kRead;
  int32_t file = 0;  // index into DiskBackendSetup::files
  int64_t offset = 0;
  std::byte* memory = nullptr;
  int64_t bytes = 0;
};

struct DiskBackendSetup {
  int32_t depth = 1;                         // blocks in flight at most
  std::vector<int> files;                    // descriptors, open as long as the backend lives
  std::vector<std::span<std::byte>> memory;  // the memory of most blocks; mapped as long as the backend lives
};

class DiskBackend {
 public:
  struct Completion {
    int32_t slot = 0;
    int64_t result = 0;  // bytes moved, which may be fewer than asked; or -errno
  };
  enum class Wait : uint8_t { kNo, kYes };

  virtual ~DiskBackend() = default;
  // Returns "io_uring" or "threads".
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Starts to move a block, at the latest with the next finish(). `slot`, below depth, names it until it is finished.
  virtual void start(int32_t slot, const DiskBlock& block) = 0;
  // Returns a block that is finished. kNo: returns nullopt if none is; kYes waits for one. REQUIRES: with kYes, one was
  // started.
  [[nodiscard]] virtual std::optional<Completion> finish(Wait wait) = 0;
};

using MakeDiskBackend = std::function<std::unique_ptr<DiskBackend>(const DiskBackendSetup&)>;

// Makes a backend of io_uring with registered files and memory. Returns null, with errno, if the kernel or a sandbox
// refuses it. If registering the memory is refused (RLIMIT_MEMLOCK), goes on without and logs that in one line.
[[nodiscard]] std::unique_ptr<DiskBackend> make_uring_backend(const DiskBackendSetup& setup);
// Makes a backend of `depth` threads.
[[nodiscard]] std::unique_ptr<DiskBackend> make_thread_backend(const DiskBackendSetup& setup);
// Makes the first of the two that is available; one log line if it is the second.
[[nodiscard]] std::unique_ptr<DiskBackend> make_disk_backend(const DiskBackendSetup& setup);

}  // namespace spillway
