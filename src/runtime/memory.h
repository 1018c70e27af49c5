// The memory that the programs of a job run in: an arena in device and in host memory, queues to the disk and to the
// user's files, and queues of the device. Made once for a job, as large as its largest program needs; sections of one
// program run at a time.
//
// The queues of one lane belong to one thread at a time, everything else to the thread that runs sections, between
// sections. After construction nothing is allocated.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/arena.h"
#include "backend/device.h"
#include "base/index.h"
#include "base/parallel.h"
#include "io/disk_queue.h"
#include "plan/program.h"
#include "runtime/disk_bridge.h"

namespace spillway {

// The position of a value's bytes in the user's files.
struct FilePlace {
  int32_t file = 0;  // index into TierOptions::files
  int64_t offset = 0;
};

struct TierOptions {
  Device* device = nullptr;    // of the device tier and its lanes; null: the CPU
  int host_threads = 1;        // of the host_compute lane; at most Program::threads
  Scratch* scratch = nullptr;  // for programs that use the disk tier: at least its arena's bytes
  // For programs with values in Tier::kFiles; by value of the first program's graph.
  std::vector<std::filesystem::path> files;
  std::map<ValueId, FilePlace> in_files;
  // Whether to read the user's files past the page cache, through staging_bytes() of memory beside the arenas.
  bool direct_files = false;
  MakeDiskBackend disk_backend = make_disk_backend;

  [[nodiscard]] static int64_t staging_bytes() { return DiskQueue::staging_bytes({}); }
  // Returns the host memory beside the arenas through which both disk lanes reach a device that has memory of its own.
  [[nodiscard]] static int64_t bridge_bytes() { return 2 * DiskBridge::bytes(); }
};

// The needs of programs that run in one memory.
struct MemoryNeeds {
  std::array<int64_t, kTiers> arena_bytes{};
  std::array<bool, kLanes> lanes{};         // that they use
  std::array<bool, kLanes> meets_device{};  // of disk lanes: that reach into the device tier
  int threads = std::numeric_limits<int>::max();  // the fewest that a program was made for

  void add(const Program& program);
  void add(const MemoryNeeds& other);
};

class Memory {
 public:
  // Allocates the arenas and opens the files. Borrows programs, pool, device and scratch; all but the programs must
  // outlive this. Throws MachineError if the system refuses the memory, InputError for a file that cannot be opened.
  // REQUIRES: the persistent values that programs share have the same homes in each (verify_shared_homes), and the pool
  // has no more threads than any program was made for.
  Memory(std::span<const Program* const> programs, ThreadPool& pool, const TierOptions& options);
  // The same for all programs with these needs, of which `first` is one.
  Memory(const MemoryNeeds& needs, const Program& first, ThreadPool& pool, const TierOptions& options);
  Memory(Memory&&) = delete;

  [[nodiscard]] Device& device() const { return *device_; }
  // Returns null for a place in neither the device nor the host tier.
  [[nodiscard]] std::byte* address(const Place& place) const;
  // REQUIRES: a home in Tier::kFiles.
  [[nodiscard]] FilePlace file_place(const Place& place) const;
  // REQUIRES: kCompute or kHostCompute.
  [[nodiscard]] ThreadPool& pool(Lane lane) { return lane == Lane::kCompute ? pool_ : *host_pool_; }

  [[nodiscard]] static bool is_disk_lane(Lane lane) { return lane == Lane::kDiskRead || lane == Lane::kDiskWrite; }
  // REQUIRES: not a disk lane.
  [[nodiscard]] DeviceQueue& device_queue(Lane lane) { return *nth(device_queues_, lane); }
  // REQUIRES: a disk lane that a program uses.
  [[nodiscard]] DiskQueue& disk_queue(Lane lane) { return lane == Lane::kDiskRead ? *reads_ : *writes_; }
  // Returns the bridge through which a disk lane reaches device memory that the disk cannot reach; else null.
  [[nodiscard]] DiskBridge* bridge(Lane lane) { return nth(bridges_, lane).get(); }
  // Copies between host and device memory and returns when that is done. REQUIRES: no section is running.
  void copy_now(void* to, const void* from, int64_t bytes);

 private:
  void open_queues(const MemoryNeeds& needs, const TierOptions& options);

  ThreadPool& pool_;
  std::optional<ThreadPool> host_pool_;  // set if a program uses the host_compute lane
  Device* device_;
  Device::Memory device_memory_;
  Arena host_, staging_;
  Device::Pinned pinned_host_;
  std::map<int64_t, FilePlace> in_files_;  // by offset in Tier::kFiles
  // For disk lanes that meet memory of a device's own. Before the disk queues, whose requests name its memory.
  std::array<std::unique_ptr<DiskBridge>, kLanes> bridges_;
  std::unique_ptr<DiskQueue> reads_, writes_;                       // one a disk lane
  std::array<std::unique_ptr<DeviceQueue>, kLanes> device_queues_;  // last: destroyed first, so nothing goes while they
                                                                    // work on it
};

}  // namespace spillway
