// A disk tier in memory, for tests that move a few bytes many times: a back end that is done at once.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "io/disk_backend.h"

namespace spillway::testing {

// The state shared by the back ends of several queues: the contents of each file that was opened for writing, in place
// of the file's. Others are read from the files.
class MemoryDisk {
 public:
  // Returns a factory for DiskQueueOptions::backend. The disk must outlive the queue.
  [[nodiscard]] MakeDiskBackend backend();

 private:
  class Backend;
  // Returns the contents of an open file; null if it is open only for reading. `fd` names the file as long as it is
  // open.
  [[nodiscard]] std::byte* contents_of(int fd);

  std::mutex mutex_;
  std::unordered_map<int, std::vector<std::byte>> files_;
};

}  // namespace spillway::testing
