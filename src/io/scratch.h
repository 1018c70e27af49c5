// The disk tier's storage: one address space [0, bytes) on one nameless file per folder.
//
// The files are reserved in full when they are made and have no name, so that a full disk shows before the first step
// and that nothing is left behind, whatever is killed when. They bypass the page cache (O_DIRECT) if the file system
// can, because the tier is too large to be worth caching and would push out other data.
//
// Several folders stripe: stripe i of the address space is stripe i / n of file i % n. Each file gets an equal share,
// so that the slowest disk sets the pace.
//
// DiskQueue reads and writes it. Safe from any thread, since all is const except the sums of checksums().
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
  // Throws InputError if a folder has too little room (naming it, the needed and the free bytes) or cannot be written;
  // MachineError if the disk fails. Logs one line if O_DIRECT is refused.
  explicit Scratch(const ScratchOptions& options);

  struct File {
    std::filesystem::path folder;
    FileDescriptor fd;
    int64_t bytes = 0;
    bool is_direct = false;
  };
  // The position of byte `offset`, and how many bytes follow it there before the next stripe begins elsewhere.
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
  // Returns null if none are kept.
  [[nodiscard]] BlockChecksums* checksums() const { return checksums_.get(); }

 private:
  int64_t bytes_ = 0, stripe_bytes_ = 0;
  std::vector<File> files_;
  std::unique_ptr<BlockChecksums> checksums_;
};

// Opens a regular file without a name in `folder`, for reading and writing; it is gone when it is closed. Holds -1,
// with errno, if the folder or, with `direct`, the file system refuses.
[[nodiscard]] FileDescriptor open_nameless(const std::filesystem::path& folder, bool direct);

}  // namespace spillway
