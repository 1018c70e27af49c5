// Names of what is being written, and clearing away what killed processes left under them.
//
// Beside a target NAME: `.NAME.tmp-ID` is a file and `NAME.tmp-ID` a folder that is being written, `NAME.old-ID` a
// folder that is being replaced, and `.NAME.lock-ID` a file that locks the latter two; ID is 16 random hexadecimal
// digits. Whoever writes holds a lock (flock) on that file, which ends with the process. That tells the abandoned from
// the unfinished also between containers and, on a network file system, between hosts, where process ids mean nothing.
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
// The target's folder must exist. Throws as AtomicFile.
[[nodiscard]] TemporaryFile create_temporary_file(const std::filesystem::path& target);

// Whether a name is one of these.
[[nodiscard]] bool is_temporary_name(std::string_view name);

// The names for a folder that is being written, made, replaced or removed, held while this lives. Folders that still
// have one of the names then are removed: an unfinished one with all that it holds, any other as far as its record goes
// (io/folder_record.h), and what is not in that stays in `NAME.kept-NUMBER`, with a warning.
class TemporaryFolderName {
 public:
  // The target's folder must exist. Makes no folder.
  explicit TemporaryFolderName(const std::filesystem::path& target);
  ~TemporaryFolderName();
  TemporaryFolderName(TemporaryFolderName&&) = delete;

  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }
  // For a folder that gives up its name before the other has it: not removed unless there is a target.
  [[nodiscard]] const std::filesystem::path& old() const { return old_; }

 private:
  std::filesystem::path target_, temporary_, old_, lock_path_;
  FileDescriptor lock_;
};

// Removes what writers that were killed left in a folder for one target, or for any where `target` is empty. What is
// not known to be abandoned stays, as where the file system has no locks.
void clear_leftovers_of(const std::filesystem::path& folder, std::string_view target);

}  // namespace spillway
