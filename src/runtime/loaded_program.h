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

#include "backend/kernel.h"
#include "base/parallel.h"
#include "io/disk_queue.h"
#include "plan/program.h"
#include "runtime/arena.h"

namespace spillway {

// Where a value's bytes lie in the user's files.
struct FilePlace {
  int32_t file = 0;  // index into TierOptions::files
  int64_t offset = 0;
};

struct TierOptions {
  int host_threads = 1;        // of the host_compute lane; at most Program::threads
  Scratch* scratch = nullptr;  // for programs that use the disk tier: at least its arena's bytes
  // For programs with values in Tier::kFiles.
  std::vector<std::filesystem::path> files;
  std::map<ValueId, FilePlace> in_files;
  // Reads the user's files past the page cache, by way of staging_bytes() of memory beside the arenas.
  bool direct_files = false;
  MakeDiskBackend disk_backend = make_disk_backend;

  [[nodiscard]] static int64_t staging_bytes() { return DiskQueue::staging_bytes({}); }
};

class LoadedProgram {
 public:
  // Allocates the arenas and opens the files. Graph, program, pool and scratch are borrowed and must outlive this.
  // Throws MachineError where the system refuses the memory, InputError for a file that cannot be opened.
  // REQUIRES: verify(graph, program) is empty.
  LoadedProgram(const Graph& graph, const Program& program, ThreadPool& pool, const TierOptions& options);
  LoadedProgram(LoadedProgram&&) = delete;

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Program& program() const { return program_; }

  // Where a persistent or batch value lives. REQUIRES: it has a home.
  [[nodiscard]] const Place& home_of(ValueId id) const;
  // The memory of a place with the value's shape. REQUIRES: it is in the device or the host tier.
  [[nodiscard]] TensorView view(const Operand& operand) const;
  [[nodiscard]] FilePlace file_place_of(ValueId id) const { return in_files_.at(id); }

  // The number of rows that per-token values have from now on.
  void set_tokens(int64_t tokens);

  // Runs the operation, or copies and returns when the bytes have arrived. Throws MachineError where a transfer fails.
  void execute(int32_t instruction);

  // Transfers of the disk lanes can be started ahead: queue(lane).wait() finishes them. REQUIRES: is_disk_lane(lane)
  // of the instruction.
  [[nodiscard]] static bool is_disk_lane(Lane lane) { return lane == Lane::kDiskRead || lane == Lane::kDiskWrite; }
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
    void (*kernel)(const KernelArgs&) = nullptr;  // null: a copy
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
  void resolve(const Instruction& instruction);
  void resolve_operation(const Instruction& instruction, Step& step);
  void resolve_copy(const Instruction& instruction, Step& step) const;

  const Graph& graph_;
  const Program& program_;
  ThreadPool& pool_;
  std::optional<ThreadPool> host_pool_;  // where the program uses the host_compute lane
  Arena device_, host_, staging_;
  std::map<ValueId, FilePlace> in_files_;
  std::vector<int32_t> homes_;  // by value: index into Program::homes, or kNone
  std::vector<Step> steps_;
  std::unique_ptr<DiskQueue> reads_, writes_;  // one a disk lane
};

}  // namespace spillway
