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

}  // namespace spillway
