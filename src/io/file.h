// Reads and writes files.
//
// Reading goes through pread and not through a mapping, which counts as resident memory (io/mapped_file.h is the
// exception, for training data). Only regular files are opened; a pipe, a folder or a device is refused without
// blocking. Writing is atomic: a name holds the old content or the whole new one, whatever is killed when.
//
// Errors: those that a user can put right (no such file, a folder given as a file, a file cut short) are InputErrors;
// failures of the machine (full disk, EIO, no file descriptors left) are MachineErrors. Both name the path.
// Threads: a ReadFile may be read from any thread; the writers belong to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/interrupt.h"

namespace spillway {

// An open file descriptor that closes itself.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  [[nodiscard]] int get() const { return fd_; }
  void close();

 private:
  int fd_ = -1;
};

// A regular file, open for reading.
class ReadFile {
 public:
  explicit ReadFile(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Returns the bytes, as they were when the file was opened.
  [[nodiscard]] int64_t size() const { return size_; }
  // Fills `into` from byte `offset` on. Throws InputError if the file has become shorter.
  void read(int64_t offset, std::span<std::byte> into) const;
  // Tells the system that these bytes, or what the file has of them, will be read, so that the disk brings them
  // meanwhile.
  void announce(int64_t offset, int64_t bytes) const;
  // Brings data written to the file to the disk.
  void sync() const;

 private:
  std::filesystem::path path_;
  FileDescriptor fd_;
  int64_t size_ = 0;
};

// Returns the whole file. Throws InputError for more than `limit_bytes`, before anything is read.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, int64_t limit_bytes);

// A file that takes its name only when it is complete. Without commit() nothing remains.
//
//   AtomicFile file(path);
//   file.append(text);
//   file.commit();
class AtomicFile {
 public:
  // Creates a temporary file beside `path`, whose folder must exist, and removes leftovers of killed processes for the
  // same name.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  // Writes at the given offset; append() continues at the end of the last append(). Like all writing, it ends if a
  // signal asks for that (base/interrupt.h).
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  // Brings the data to the disk, which may show that the disk is full.
  void sync() const;
  // Does the same, then gives the file its name, replacing an older one. To be called once.
  void commit();

 private:
  TidyFirst tidy_;
  std::filesystem::path path_, temporary_;
  FileDescriptor fd_;
  int64_t end_ = 0, started_ = 0;  // of what is appended, and of what is on its way to the disk
};

// Writes a whole file atomically.
void write_file(const std::filesystem::path& path, std::string_view content);

class TemporaryFolderName;

// A folder that takes its name only when it is complete: write into path(), then publish. Otherwise nothing remains.
// The constructor also removes leftovers of killed processes for the same name (io/temporary_name.h).
class AtomicFolder {
 public:
  // Creates a folder beside `target`, whose parent folders are created. A link to a folder, perhaps on a larger disk,
  // stays, and the folder that it names is written; a link to nothing is an InputError. `command` goes into the
  // folder's record (io/folder_record.h).
  explicit AtomicFolder(const std::filesystem::path& target, std::string_view command = "");
  ~AtomicFolder();
  AtomicFolder(AtomicFolder&&) = delete;

  // REQUIRES: not yet published.
  [[nodiscard]] const std::filesystem::path& path() const;
  // Writes the record, brings every file below path() to the disk, then gives the folder its name. An older folder of
  // that name is exchanged in one step if the file system can (Linux renameat2), so that readers and crashes see either
  // the old one or the new one; elsewhere it is first moved to another name. The files of its record are removed; if it
  // holds others, they are kept in `NAME.kept-NUMBER` and a warning says so. To be called once.
  void publish();
  // Does the same if there is no folder of that name, or an empty one. Returns false otherwise: then the caller may
  // look at it, and still publish().
  [[nodiscard]] bool publish_new();

 private:
  void complete() const;
  [[nodiscard]] bool exchange();
  void finish();

  TidyFirst tidy_;
  std::filesystem::path target_;
  std::string command_;
  std::unique_ptr<TemporaryFolderName> name_;  // null once it is published
};

// Removes temporary files and folders of killed processes from a folder, and folders that they were replacing. Those of
// processes that still run, here or elsewhere, stay. Does nothing if there is no such folder.
void clear_leftovers(const std::filesystem::path& folder);

// Removes a folder that AtomicFolder published so that a crash leaves none with half of its files under its name. Files
// that its record does not name are kept, as publish() keeps them.
void remove_folder(const std::filesystem::path& folder);

// Creates a folder and those above it. Throws InputError if a file is in the way.
void create_folders(const std::filesystem::path& folder);

// Returns the folder of a path, "." for a name without one.
[[nodiscard]] std::filesystem::path folder_of(const std::filesystem::path& path);

// Returns the path without a trailing slash, so that "model/" names the folder "model".
[[nodiscard]] std::filesystem::path without_trailing_slash(const std::filesystem::path& path);

}  // namespace spillway
