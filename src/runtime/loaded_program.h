// A Program with memory behind its places: arenas for the device and the host tier, queues to the disk and to the
// user's files, and every operand resolved to an address once.
//
// It executes one instruction at a time; in which order and on which thread is a LaneRunner's business. Different
// instructions may be executed by different threads at once, except that those of one lane belong to one thread at a
// time. Everything else belongs to the thread that runs sections, between sections. After construction nothing is
// allocated.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backend/arena.h"
#include "backend/device.h"
#include "backend/kernel.h"
#include "base/parallel.h"
#include "io/disk_queue.h"
#include "plan/program.h"
#include "runtime/disk_bridge.h"

namespace spillway {

// Where a value's bytes lie in the user's files.
struct FilePlace {
  int32_t file = 0;  // index into TierOptions::files
  int64_t offset = 0;
};

struct TierOptions {
  Device* device = nullptr;    // of the device tier and its lanes; null: the CPU
  int host_threads = 1;        // of the host_compute lane; at most Program::threads
  Scratch* scratch = nullptr;  // for programs that use the disk tier: at least its arena's bytes
  // For programs with values in Tier::kFiles.
  std::vector<std::filesystem::path> files;
  std::map<ValueId, FilePlace> in_files;
  // Reads the user's files past the page cache, by way of staging_bytes() of memory beside the arenas.
  bool direct_files = false;
  MakeDiskBackend disk_backend = make_disk_backend;

  [[nodiscard]] static int64_t staging_bytes() { return DiskQueue::staging_bytes({}); }
  // Host memory beside the arenas by which both disk lanes reach a device that has memory of its own.
  [[nodiscard]] static int64_t bridge_bytes() { return 2 * DiskBridge::bytes(); }
};

class LoadedProgram {
 public:
  // Allocates the arenas and opens the files. Graph, program, pool, device and scratch are borrowed and must outlive
  // this. Throws MachineError where the system refuses the memory, InputError for a file that cannot be opened or an
  // operation that the device has no kernel for.
  // REQUIRES: verify(graph, program) is empty.
  LoadedProgram(const Graph& graph, const Program& program, ThreadPool& pool, const TierOptions& options);
  LoadedProgram(LoadedProgram&&) = delete;

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Program& program() const { return program_; }

  // Where a persistent or batch value lives. REQUIRES: it has a home.
  [[nodiscard]] const Place& home_of(ValueId id) const;
  // The memory of a place with the value's shape, which in the device tier is the device's. REQUIRES: it is in the
  // device or the host tier.
  [[nodiscard]] TensorView view(const Operand& operand) const;
  [[nodiscard]] FilePlace file_place_of(ValueId id) const { return in_files_.at(id); }

  // The number of rows that per-token values have from now on.
  void set_tokens(int64_t tokens);
  [[nodiscard]] int64_t tokens() const { return tokens_; }
  // Whether what the instruction does depends on that number.
  [[nodiscard]] bool follows_tokens(int32_t instruction) const {
    return !at(instruction).per_token.empty() || at(instruction).row_bytes > 0;
  }

  // Runs the operation, or copies and returns when the bytes have arrived; on a lane that is asynchronous, puts either
  // into the lane's queue. Throws MachineError where a transfer fails.
  void execute(int32_t instruction);

  [[nodiscard]] Device& device() const { return *compute_; }
  // The lanes whose work the device does on its own time.
  [[nodiscard]] bool is_asynchronous(Lane lane) const {
    return compute_->is_asynchronous() &&
           (lane == Lane::kCompute || lane == Lane::kHostToDevice || lane == Lane::kDeviceToHost);
  }
  // REQUIRES: not a disk lane.
  [[nodiscard]] DeviceQueue& device_queue(Lane lane) { return *device_queues_[static_cast<size_t>(lane)]; }
  // Copies between host and device memory and returns when that is done. Between sections.
  void copy_now(void* to, const void* from, int64_t bytes);

  // Transfers of the disk lanes can be started ahead: queue(lane).wait() finishes them. REQUIRES: is_disk_lane(lane)
  // of the instruction, and runs_ahead(lane).
  [[nodiscard]] static bool is_disk_lane(Lane lane) { return lane == Lane::kDiskRead || lane == Lane::kDiskWrite; }
  // Not where device memory is beyond the disk's reach: execute() takes such transfers over a bridge.
  [[nodiscard]] bool runs_ahead(Lane lane) const { return is_disk_lane(lane) && !bridges_[static_cast<size_t>(lane)]; }
  [[nodiscard]] DiskQueue::Ticket start(int32_t instruction);
  [[nodiscard]] DiskQueue& queue(Lane lane) { return lane == Lane::kDiskRead ? *reads_ : *writes_; }
  // Whether two transfers of one disk lane write the same bytes, so that the first must finish before the second
  // starts.
  [[nodiscard]] bool write_same_bytes(int32_t a, int32_t b) const;

  // What a copy moves now; 0 for operations.
  [[nodiscard]] int64_t moved_bytes(int32_t instruction) const { return at(instruction).bytes; }
  // The end of the highest byte of each tier that an instruction touches.
  [[nodiscard]] const std::array<int64_t, kTiers>& top_bytes(int32_t instruction) const {
    return at(instruction).top_bytes;
  }

 private:
  struct Step {
    Lane lane = Lane::kCompute;
    // Operations.
    KernelFunction kernel = nullptr;  // null: a copy
    std::vector<TensorView> inputs, outputs;
    std::vector<TensorView*> per_token;  // those of the above whose rows follow the stream
    std::byte* workspace = nullptr;
    const Attributes* attributes = nullptr;
    ThreadPool* pool = nullptr;
    // Copies; places in memory have addresses.
    std::byte* from = nullptr;
    std::byte* to = nullptr;
    Place from_place, to_place;
    FilePlace file;         // where from_place is in Tier::kFiles
    int64_t row_bytes = 0;  // of a per-token value; 0: all of it moves, however long the stream
    int64_t bytes = 0;

    std::array<int64_t, kTiers> top_bytes{};
  };

  [[nodiscard]] const Step& at(int32_t i) const { return steps_[static_cast<size_t>(i)]; }
  [[nodiscard]] std::byte* address(const Place& place) const;
  void open_queues(const TierOptions& options);
  void move_over_bridge(const Step& step);
  void resolve(const Instruction& instruction);
  void resolve_operation(const Instruction& instruction, Step& step);
  void resolve_copy(const Instruction& instruction, Step& step) const;

  const Graph& graph_;
  const Program& program_;
  ThreadPool& pool_;
  std::optional<ThreadPool> host_pool_;  // where the program uses the host_compute lane
  Device* compute_;
  Device::Memory device_;
  Arena host_, staging_;
  Device::Pinned pinned_host_;
  std::map<ValueId, FilePlace> in_files_;
  std::vector<int32_t> homes_;  // by value: index into Program::homes, or kNone
  std::vector<Step> steps_;
  int64_t tokens_;
  // Of disk lanes that meet memory of a device's own. Before the disk queues, whose requests name its memory.
  std::array<std::unique_ptr<DiskBridge>, kLanes> bridges_;
  std::unique_ptr<DiskQueue> reads_, writes_;                       // one a disk lane
  std::array<std::unique_ptr<DeviceQueue>, kLanes> device_queues_;  // last: nothing goes while they work on it
};

}  // namespace spillway
