// A folder that one process at a time writes to.
#pragma once

#include <filesystem>

#include "io/file.h"

namespace spillway {

// Holds a folder while it lives. Nothing is left in the folder, and the lock of a killed process is gone. A file system
// without locks gives none.
class FolderLock {
 public:
  // Throws InputError where the folder cannot be written to, or another process holds it.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  FileDescriptor fd_;
};

// Whether a process of this system holds the folder, by /proc/locks, which takes no lock itself. What a process in
// another container or on another host holds is not seen.
[[nodiscard]] bool is_folder_held(const std::filesystem::path& folder);

}  // namespace spillway
