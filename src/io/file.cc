#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/file_error.h"
#include "io/folder_entries.h"
#include "io/folder_record.h"
#include "io/temporary_name.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Returns as fsync does; retries after a signal (on NFS).
int sync_fd(int fd) {
  int result = 0;
  do {
    result = ::fsync(fd);
  } while (result != 0 && errno == EINTR);
  return result;
}

// Begins to bring written bytes to the disk, and does not wait: sync_fd() later finds less to do. No file system has to
// follow.
void start_writing(int fd, int64_t offset, int64_t bytes) {
#if defined(__linux__)
  (void)::sync_file_range(fd, offset, bytes, SYNC_FILE_RANGE_WRITE);
#endif
}

void sync_folder(const fs::path& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A folder may be open for writing and not for reading; its names reach the disk when the system likes.
  if (fd.get() < 0 && errno == EACCES) return;
  if (fd.get() < 0) throw_file_error(path, "be opened", errno);
  // Some file systems refuse to sync a folder (EINVAL); their renames are as durable as they will get.
  if (sync_fd(fd.get()) != 0 && errno != EINVAL) throw_file_error(path, "be brought to the disk", errno);
}

void sync_files(const fs::path& folder) {
  for (const FolderEntry& entry : entries_of(folder)) {
    if (entry.kind == EntryKind::kFolder) sync_files(folder / entry.name);
    if (entry.kind == EntryKind::kFile) ReadFile(folder / entry.name).sync();
  }
  sync_folder(folder);
}

void write_all(int fd, const fs::path& path, int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0) {
      if (errno == EINTR) continue;
      throw_file_error(path, "be written", errno);
    }
    offset += written;
    bytes = subspan_of(bytes, written);
  }
}

}  // namespace

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

fs::path without_trailing_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

void FileDescriptor::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

// O_NONBLOCK: opening a named pipe returns at once instead of waiting for a writer. It has no effect on regular files.
ReadFile::ReadFile(fs::path path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_.get() < 0) {
    if (errno == ENXIO)
      throw input_error(path_.string(), "expected a file, got a socket or device; give a regular file");
    throw_file_error(path_, "be read", errno);
  }
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) throw_file_error(path_, "be read", errno);
  if (!S_ISREG(status.st_mode)) {
    throw input_error(path_.string(), "expected a file, got {}; give a regular file", kind_of(status.st_mode));
  }
  size_ = status.st_size;
}

void ReadFile::read(int64_t offset, std::span<std::byte> into) const {
  SPILLWAY_CHECK(offset >= 0, "offset {} in {}", offset, path_.string());
  while (!into.empty()) {
    const ssize_t got = ::pread(fd_.get(), into.data(), into.size(), offset);
    if (got < 0) {
      if (errno == EINTR) continue;
      throw_file_error(path_, "be read", errno);
    }
    if (got == 0) {
      throw input_error(path_.string(), "expected {} more bytes at offset {}, got the end of the file; copy it again",
                        into.size(), offset);
    }
    offset += got;
    into = subspan_of(into, got);
  }
}

void ReadFile::announce(int64_t offset, int64_t bytes) const {
  (void)::posix_fadvise(fd_.get(), offset, bytes, POSIX_FADV_WILLNEED);
}

void ReadFile::sync() const {
  if (sync_fd(fd_.get()) != 0) throw_file_error(path_, "be brought to the disk", errno);
}

std::string read_file(const fs::path& path, int64_t limit_bytes) {
  const ReadFile file(path);
  if (file.size() > limit_bytes) {
    throw input_error(path.string(), "expected at most {}, got {}; check that this is the right file",
                      format_bytes(limit_bytes), format_bytes(file.size()));
  }
  std::string content;
  resize(content, file.size());
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw input_error(path_.string(), "expected the name of a file to write, got {}; choose another name",
                      kind_of(status.st_mode));
  }
  clear_leftovers_of(folder_of(path_), path_.filename().string());
  TemporaryFile file = create_temporary_file(path_);
  temporary_ = std::move(file.path);
  fd_ = std::move(file.fd);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  constexpr int64_t kStarted = int64_t{16} << 20;
  write_at(end_, bytes);
  end_ += static_cast<int64_t>(bytes.size());
  if (end_ - started_ < kStarted) return;
  start_writing(fd_.get(), started_, end_ - started_);
  started_ = end_;
}

void AtomicFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  SPILLWAY_CHECK(fd_.get() >= 0, "{} is committed", path_.string());
  check_interrupt();
  write_all(fd_.get(), path_, offset, bytes);
}

void AtomicFile::sync() const {
  SPILLWAY_CHECK(fd_.get() >= 0, "{} is committed", path_.string());
  if (sync_fd(fd_.get()) != 0) throw_file_error(path_, "be brought to the disk", errno);
}

void AtomicFile::commit() {
  sync();
  // The file is still open, and thereby locked.
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_file_error(path_, "be written", errno);
  temporary_.clear();
  fd_.close();
  sync_folder(folder_of(path_));
}

void write_file(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.append(content);
  file.commit();
}

AtomicFolder::AtomicFolder(const fs::path& target, std::string_view command)
    : target_(without_trailing_slash(target)), command_(command) {
  std::error_code error;
  if (fs::is_symlink(target_, error) && !fs::exists(target_, error))
    throw input_error(target_.string(), "expected the name of a folder to write, got a link to nothing; remove it");
  // A link to a folder, perhaps on a larger disk, stays, and the folder that it names is written.
  if (fs::is_symlink(target_, error) && fs::is_directory(target_, error)) target_ = fs::canonical(target_);
  const auto status = fs::status(target_, error);
  if (fs::exists(status) && !fs::is_directory(status)) {
    throw input_error(target_.string(), "expected the name of a folder to write, got a file; choose another name");
  }
  create_folders(folder_of(target_));
  clear_leftovers_of(folder_of(target_), target_.filename().string());
  name_ = std::make_unique<TemporaryFolderName>(target_);
  if (::mkdir(path().c_str(), 0777) != 0) throw_file_error(target_, "be written", errno);
  mark_unfinished(path());
}

AtomicFolder::~AtomicFolder() = default;

const fs::path& AtomicFolder::path() const { return name_->temporary(); }

void AtomicFolder::complete() const {
  write_record(path(), record_of(path(), command_, files_below(path())));
  sync_files(path());
}

bool AtomicFolder::publish_new() {
  SPILLWAY_CHECK(name_, "{} is published twice", target_.string());
  complete();
  // An empty folder counts as none.
  if (::rename(path().c_str(), target_.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST) return false;
    throw_file_error(target_, "be written", errno);
  }
  finish();
  return true;
}

void AtomicFolder::publish() {
  // Another process may give the target its name, or take it away, at any moment.
  constexpr int kMaxAttempts = 100;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (publish_new() || exchange()) return;
  }
  throw_file_error(target_, "be written", EBUSY);
}

// Returns false if there is no target any more.
bool AtomicFolder::exchange() {
  if (::syscall(SYS_renameat2, AT_FDCWD, path().c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
    finish();
    return true;
  }
  if (errno != ENOENT && ::rename(target_.c_str(), name_->old().c_str()) != 0 && errno != ENOENT)
    throw_file_error(target_, "be written", errno);
  return false;
}

// The replaced folder goes with the temporary name.
void AtomicFolder::finish() {
  sync_folder(folder_of(target_));
  name_.reset();
}

void clear_leftovers(const fs::path& folder) { clear_leftovers_of(folder, ""); }

void remove_folder(const fs::path& folder) {
  const fs::path target = without_trailing_slash(folder);
  const TemporaryFolderName name(target);
  if (::rename(target.c_str(), name.temporary().c_str()) != 0) throw_file_error(target, "be removed", errno);
}

namespace {

// Returns true if the path of a folder, or the beginning of it, is something other than a folder.
bool is_file_in_the_way(const fs::path& folder) {
  std::error_code error;
  for (fs::path at = without_trailing_slash(folder); !at.empty(); at = at.parent_path()) {
    const fs::file_status status = fs::status(at, error);
    if (fs::exists(status)) return !fs::is_directory(status);
    if (at == at.root_path()) break;
  }
  return false;
}

}  // namespace

void create_folders(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> made;  // from the innermost outwards
  for (fs::path at = without_trailing_slash(folder); !at.empty() && !fs::exists(at, error); at = at.parent_path())
    made.push_back(at);
  // create_directories reports a file in the way as ENOTDIR or EEXIST, depending on where it stands, and so a folder
  // that another process removes meanwhile.
  constexpr int kMaxAttempts = 100;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    fs::create_directories(folder, error);
    if (error != std::errc::file_exists && error != std::errc::not_a_directory) break;
    if (is_file_in_the_way(folder))
      throw input_error(folder.string(), "expected the name of a folder, got a file in the way; choose another name");
  }
  if (error == std::errc::no_such_file_or_directory)  // the system's own folders take no others
    throw input_error(folder.string(),
                      "expected a folder that can be made, got a place that takes none; choose another");
  if (error) throw_file_error(folder, "be created", error.value());
  // Files synced within a folder are lost with it if its own name never came to the disk.
  for (const fs::path& one : made) sync_folder(folder_of(one));
}

}  // namespace spillway
