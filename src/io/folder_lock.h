// Locks a folder so that only one process at a time writes to it.
#pragma once

#include <filesystem>

#include "io/file.h"

namespace spillway {

// Holds a folder while it lives. Leaves nothing in the folder, and the lock of a killed process is gone. Does nothing
// if the file system has no locks.
class FolderLock {
 public:
  // Throws InputError if the folder cannot be written to, or another process holds it.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  FileDescriptor fd_;
};

// Returns true if a process of this system holds the folder, by /proc/locks, without taking a lock itself. Locks of a
// process in another container or on another host are not seen.
[[nodiscard]] bool is_folder_held(const std::filesystem::path& folder);

}  // namespace spillway
