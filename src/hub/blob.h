// Writes a file's bytes into the cache: blobs/ETAG.incomplete, which is always the first part of the whole, then
// blobs/ETAG.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "hub/digest.h"
#include "io/file.h"

namespace spillway::hub {

// Holds a lock file of the cache (flock), as huggingface_hub's processes do, while it lives; waits for another process
// that holds it, and logs that once. Holds nothing if the file system has no locks.
class BlobLock {
 public:
  BlobLock() = default;
  // `what` is named in the message. If it is stopped while waiting, it holds nothing. Throws as ReadFile.
  BlobLock(const std::filesystem::path& path, const std::string& what, const std::function<bool()>& is_stopped);

 private:
  FileDescriptor fd_;
};

// An incomplete blob. For use by one thread at a time.
class IncompleteBlob {
 public:
  IncompleteBlob() = default;
  // Opens or creates it. Keeps its present bytes, unless they are more than `size` (negative: not known).
  IncompleteBlob(std::filesystem::path blob, int64_t size);

  // Returns the bytes that are present.
  [[nodiscard]] int64_t written() const { return written_; }
  void append(std::span<const std::byte> bytes);
  void clear();
  // Returns true if its digest equals its name, or its name is no digest.
  [[nodiscard]] bool is_right(const std::function<bool()>& is_stopped) const;
  // Brings it to the disk and gives it its final name.
  void complete();

 private:
  std::filesystem::path blob_, path_;
  FileDescriptor fd_;
  int64_t written_ = 0;
};

}  // namespace spillway::hub
