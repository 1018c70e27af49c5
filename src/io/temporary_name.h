// Names of files and folders that are being written, and the removal of those that killed processes left.
//
// Beside a target NAME: `.NAME.tmp-ID` is a file and `NAME.tmp-ID` a folder that is being written, `NAME.old-ID` a
// folder that is being replaced, and `.NAME.lock-ID` a file that locks the latter two; ID is 16 random hexadecimal
// digits. The writer holds a lock (flock) on that file, which ends with the process. That tells the abandoned from the
// unfinished also between containers and, on a network file system, between hosts, where process ids mean nothing.
// Folders are locked by a file because a network file system locks folders for one host only.
#pragma once

#include <filesystem>
#include <string_view>

#include "io/file.h"

namespace spillway {

// An empty file beside a target, open for writing and locked as long as it is open.
struct TemporaryFile {
  std::filesystem::path path;
  FileDescriptor fd;
};
// Creates one. The target's folder must exist. Throws as AtomicFile.
[[nodiscard]] TemporaryFile create_temporary_file(const std::filesystem::path& target);

// Returns true if a name is one of these.
[[nodiscard]] bool is_temporary_name(std::string_view name);

// The names for a folder that is being written, made, replaced or removed, held while this lives. Folders that have one
// of the names at its end are removed: an unfinished one with all that it holds, any other as far as its record goes
// (io/folder_record.h), and files that are not in that stay in `NAME.kept-NUMBER`, with a warning.
class TemporaryFolderName {
 public:
  // The target's folder must exist. Makes no folder.
  explicit TemporaryFolderName(const std::filesystem::path& target);
  ~TemporaryFolderName();
  TemporaryFolderName(TemporaryFolderName&&) = delete;

  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }
  // Returns the name for a folder that gives up its name before the other has it: not removed unless there is a target.
  [[nodiscard]] const std::filesystem::path& old() const { return old_; }

 private:
  std::filesystem::path target_, temporary_, old_, lock_path_;
  FileDescriptor lock_;
};

// Removes files and folders that killed writers left in a folder for one target, or for any if `target` is empty. Those
// that are not known to be abandoned stay, for example if the file system has no locks.
void clear_leftovers_of(const std::filesystem::path& folder, std::string_view target);

}  // namespace spillway
