// A file's bytes on their way into the cache: blobs/ETAG.incomplete, which is always the first part of the whole, then
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
// that holds it, and says so once. A file system without locks gives none.
class BlobLock {
 public:
  BlobLock() = default;
  // `what` is named in the message. Where it is stopped meanwhile it holds nothing. Throws as ReadFile.
  BlobLock(const std::filesystem::path& path, const std::string& what, const std::function<bool()>& is_stopped);

 private:
  FileDescriptor fd_;
};

// One thread at a time.
class IncompleteBlob {
 public:
  IncompleteBlob() = default;
  // Opens or creates it. What is there of it stays, unless it is longer than `size` (negative: not known).
  IncompleteBlob(std::filesystem::path blob, int64_t size);

  // Bytes that are there.
  [[nodiscard]] int64_t written() const { return written_; }
  void append(std::span<const std::byte> bytes);
  void clear();
  // Whether its digest is what the name says, for names that are digests.
  [[nodiscard]] bool is_right(const std::function<bool()>& is_stopped) const;
  // Brings it to the disk and gives it its final name.
  void complete();

 private:
  std::filesystem::path blob_, path_;
  FileDescriptor fd_;
  int64_t written_ = 0;
};

}  // namespace spillway::hub
