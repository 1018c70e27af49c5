// The disk tier's storage: one address space [0, bytes) on one nameless file a folder.
//
// The files are reserved in full when they are made and have no name, so that a full disk shows before the first step
// and that nothing is left behind, whatever is killed when. They bypass the page cache (O_DIRECT) where the file system
// can, because what the tier holds is too large to be worth caching and would push out what is.
//
// Several folders stripe: stripe i of the address space is stripe i / n of file i % n. Each file gets an equal share,
// so that the slowest disk sets the pace.
//
// Reading and writing is DiskQueue's. Threads: const throughout but for the sums of checksums().
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "io/block_checksums.h"
#include "io/file.h"

namespace spillway {

struct ScratchOptions {
  std::vector<std::filesystem::path> folders;  // at least one; made where they are not there
  int64_t bytes = 0;                           // a multiple of kDiskAlignment
  // Large enough that each disk sees requests at which it runs at full speed, small enough that one activation or
  // weight already spreads over all disks. A multiple of kDiskAlignment.
  int64_t stripe_bytes = kMiB;
  bool checksums = false;  // keep a sum of each block written, and compare when it is read
};

class Scratch {
 public:
  // Throws InputError where a folder has too little room (naming it, what is needed and what is free) or cannot be
  // written; MachineError where the disk fails. One log line where O_DIRECT is refused.
  explicit Scratch(const ScratchOptions& options);

  struct File {
    std::filesystem::path folder;
    FileDescriptor fd;
    int64_t bytes = 0;
    bool is_direct = false;
  };
  // Where byte `offset` lies, and how many bytes follow it there before the next stripe begins elsewhere.
  struct Place {
    int32_t file = 0;
    int64_t offset = 0;
    int64_t bytes = 0;
  };

  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] int64_t stripe_bytes() const { return stripe_bytes_; }
  [[nodiscard]] std::span<const File> files() const { return files_; }
  // REQUIRES: 0 <= offset < bytes().
  [[nodiscard]] Place place_of(int64_t offset) const;
  // Null where none are kept.
  [[nodiscard]] BlockChecksums* checksums() const { return checksums_.get(); }

 private:
  int64_t bytes_ = 0, stripe_bytes_ = 0;
  std::vector<File> files_;
  std::unique_ptr<BlockChecksums> checksums_;
};

// A regular file without a name in `folder`, open for reading and writing; gone when it is closed. Holds -1, with
// errno, where the folder or, with `direct`, the file system refuses.
[[nodiscard]] FileDescriptor open_nameless(const std::filesystem::path& folder, bool direct);

}  // namespace spillway
