// Asynchronous reads and writes of the disk tier, and reads of the user's model files.
//
//   Scratch scratch({.folders = {"out/scratch"}, .bytes = plan_bytes});
//   DiskQueue writes(&scratch, {.memory = {arena}});
//   const DiskQueue::Ticket ticket = writes.write_scratch(offset, memory);
//   ...                   // `memory` must stay as it is
//   writes.wait(ticket);  // now it may change
//
// A request is cut into blocks, of which `depth` are in flight at any moment, whatever the requests' sizes. Requests
// are started in order and finish in any; only wait() orders a read after a write of the same bytes. Short reads and
// writes are continued. Requests move on only inside the calls below, and in the kernel: a thread that wants to keep
// the disk busy submits the next request before it waits for the last.
//
// After construction nothing is allocated.
//
// Errors: if a request fails, the call that finds out drains everything in flight, so that no memory is being written
// any more, and throws MachineError with path, offset and advice. After that every call throws the same.
// Threads: a queue belongs to one thread at a time (a lane has its own). Several queues may share a Scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/disk_backend.h"
#include "io/file.h"
#include "io/scratch.h"

namespace spillway {

struct DiskQueueOptions {
  int32_t requests = 64;       // unfinished at once; submitting one more waits for the oldest
  int32_t depth = 16;          // blocks in flight
  int64_t block_bytes = kMiB;  // divides the stripe; a multiple of kDiskAlignment
  // The model files to read from, by their index here.
  std::vector<std::filesystem::path> read_files;
  // The arenas that requests name, which are registered with the kernel. Requests may name other memory, more slowly.
  std::vector<std::span<std::byte>> memory;
  // Memory for reading model files past the page cache, although their tensors lie at any byte: staging_bytes() of it,
  // aligned. Empty: model files are read through the page cache.
  std::span<std::byte> staging;
  MakeDiskBackend backend = make_disk_backend;
};

class DiskQueue {
 public:
  using Ticket = int64_t;

  // `scratch` may be null if only model files are read; it must outlive the queue. Throws InputError for a model file
  // that cannot be opened.
  DiskQueue(Scratch* scratch, const DiskQueueOptions& options);
  // Waits for requests that are in flight.
  ~DiskQueue();
  DiskQueue(DiskQueue&&) = delete;

  // Returns the bytes of staging memory that a queue of this depth and block size uses.
  [[nodiscard]] static int64_t staging_bytes(const DiskQueueOptions& options) {
    return options.depth * options.block_bytes;
  }

  // REQUIRES: offset, size and address are multiples of kDiskAlignment; the range lies within the scratch space.
  Ticket write_scratch(int64_t offset, std::span<const std::byte> from);
  Ticket read_scratch(int64_t offset, std::span<std::byte> into);
  // Takes any offset, size and address. REQUIRES: the range lies within the file. If offset and address differ by a
  // multiple of kDiskAlignment, all but the ends goes straight into place; else all is copied once, from the staging
  // memory.
  Ticket read_file(int32_t file, int64_t offset, std::span<std::byte> into);

  // Returns when the request is finished.
  void wait(Ticket ticket);
  // Returns when all requests are finished.
  void drain();

  // Returns "io_uring" or "threads".
  [[nodiscard]] std::string_view backend_name() const { return backend_->name(); }

 private:
  // A file as the backend knows it, by index: those of the scratch space, then the model files.
  struct File {
    std::filesystem::path path;
    FileDescriptor fd;  // of a model file
    int64_t bytes = 0;
    bool is_direct = false;
  };
  struct Request {
    DiskDirection direction = DiskDirection::kRead;
    int32_t file = -1;  // -1: the scratch space
    int64_t offset = 0;
    std::byte* memory = nullptr;
    int64_t bytes = 0;
    int64_t started_bytes = 0;  // the blocks of [0, started_bytes) have been started
    int32_t in_flight = 0;
  };
  struct Block {
    DiskBlock rest;            // the part that is still to be moved
    int64_t needed_bytes = 0;  // of it: a staged block may reach over the end of the file
    // The target of the wanted bytes in the staging memory; null if they are moved in place.
    std::byte* target = nullptr;
    const std::byte* staged = nullptr;
    int64_t wanted_bytes = 0;
    Ticket ticket = 0;
    int32_t attempts = 0;  // in a row, without progress
  };

  [[nodiscard]] File open_model_file(const std::filesystem::path& path) const;
  void check_scratch_range(int64_t offset, std::span<const std::byte> memory) const;
  void throw_if_failed() const;
  Ticket submit(const Request& request);
  [[nodiscard]] bool is_finished(Ticket ticket) const;
  [[nodiscard]] Request& request_of(Ticket ticket);
  [[nodiscard]] int32_t scratch_files() const { return scratch_ ? static_cast<int32_t>(scratch_->files().size()) : 0; }
  [[nodiscard]] int64_t in_flight() const { return std::ssize(blocks_) - std::ssize(free_slots_); }
  void advance(DiskBackend::Wait wait);
  void start_blocks();
  [[nodiscard]] Block scratch_block(const Request& request) const;
  [[nodiscard]] Block file_block(const Request& request, int32_t slot) const;
  void settle(const DiskBackend::Completion& completion);
  void release(int32_t slot);
  void verify(const Request& request);
  [[nodiscard]] std::string describe(const DiskBlock& block, int64_t moved) const;
  [[noreturn]] void fail(std::string error);
  void abandon();

  Scratch* scratch_;
  std::vector<File> files_;
  int64_t block_bytes_;
  std::span<std::byte> staging_;
  std::vector<Request> requests_;  // a ring, by ticket
  Ticket next_ = 0;                // the next to be submitted
  Ticket starting_ = 0;            // the oldest with blocks that are still to be started
  std::vector<Block> blocks_;      // by slot
  std::vector<int32_t> free_slots_;
  std::string error_;                     // of the request that failed
  std::unique_ptr<DiskBackend> backend_;  // last: it stops before the data that it works on goes
};

}  // namespace spillway
