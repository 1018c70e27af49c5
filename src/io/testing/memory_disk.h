// A disk tier in memory, for tests that move a few bytes many times: a back end that is done at once.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "io/disk_backend.h"

namespace spillway::testing {

// What the back ends of several queues share: the contents of each file that was opened for writing, in place of the
// file's. Others are read from the files.
class MemoryDisk {
 public:
  // For DiskQueueOptions::backend. The disk must outlive the queue.
  [[nodiscard]] MakeDiskBackend backend();

 private:
  class Backend;
  // The contents of an open file; null where it is open for reading alone. `fd` names the file as long as it is open.
  [[nodiscard]] std::byte* contents_of(int fd);

  std::mutex mutex_;
  std::unordered_map<int, std::vector<std::byte>> files_;
};

}  // namespace spillway::testing
