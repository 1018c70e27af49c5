#include "io/scratch.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/naming_key.h"
#include "io/disk_space.h"
#include "io/file_error.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_for_room(const fs::path& folder, int64_t bytes, int64_t free_bytes) {
  throw input_error(folder.string(),
                    "expected {} of free room for the disk tier, got {}; free some, lower memory.disk or name another "
                    "folder in memory.disk_paths",
                    format_bytes(bytes), format_bytes(free_bytes));
}

// Checks the limit of file sizes, since the signal that comes with exceeding it ends the process unless it is ignored.
void check_size_limit(const fs::path& folder, int64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (static_cast<rlim_t>(bytes) <= limit.rlim_cur) return;
  throw input_error(folder.string(),
                    "expected a scratch file of {} to be allowed, got a limit of {}; raise it (ulimit -f) or lower "
                    "memory.disk",
                    format_bytes(bytes), format_bytes(static_cast<int64_t>(limit.rlim_cur)));
}

struct FreeDeleter {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// Reserves by writing, if the file system knows no other way. Returns errno.
int fill_with_zeros(int fd, int64_t bytes) {
  constexpr int64_t kPiece = 4 * kMiB;
  const std::unique_ptr<std::byte, FreeDeleter> zeros(
      static_cast<std::byte*>(std::aligned_alloc(kDiskAlignment, kPiece)));
  if (!zeros) return ENOMEM;
  std::fill_n(zeros.get(), kPiece, std::byte{0});
  for (int64_t offset = 0; offset < bytes;) {
    const ssize_t written = ::pwrite(fd, zeros.get(), static_cast<size_t>(std::min(kPiece, bytes - offset)), offset);
    if (written < 0 && errno != EINTR) return errno;
    if (written == 0) return ENOSPC;
    if (written > 0) offset += written;
  }
  return 0;
}

void reserve(const Scratch::File& file) {
  if (file.bytes == 0) return;
  const std::optional<int64_t> free_bytes = known_free_bytes(file.folder);
  // Checks the free space first: some file systems fill up before they refuse.
  if (free_bytes && *free_bytes < file.bytes) fail_for_room(file.folder, file.bytes, *free_bytes);
  check_size_limit(file.folder, file.bytes);
  int error = 0;
  do {
    error = ::fallocate(file.fd.get(), 0, 0, file.bytes) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error == EOPNOTSUPP) error = fill_with_zeros(file.fd.get(), file.bytes);
  if (error == ENOSPC || error == EDQUOT) fail_for_room(file.folder, file.bytes, free_bytes.value_or(0));
  if (error == EFBIG) {
    throw input_error(file.folder.string(),
                      "expected a file system that holds a file of {}, got \"{}\"; name another folder in "
                      "memory.disk_paths or more of them",
                      format_bytes(file.bytes), reason_of(error));
  }
  if (error != 0) {
    throw machine_error(file.folder.string(), "expected to reserve {} for the disk tier, got \"{}\"; check the disk",
                        format_bytes(file.bytes), reason_of(error));
  }
}

Scratch::File open_in(const fs::path& folder, int64_t bytes) {
  constexpr int kMaxTries = 500;
  constexpr std::chrono::milliseconds kPause(2);
  const bool is_ours = !fs::exists(folder);
  Scratch::File file{.folder = folder, .bytes = bytes, .is_direct = true};
  // Another rank that made the folder may remove it before this one has opened its file. While it does, ext4 has a
  // folder in which nothing may be made.
  for (int tries = 0; tries < kMaxTries; ++tries) {
    naming_key("memory.disk_paths", [&] { create_folders(folder); });
    file.fd = open_nameless(folder, true);
    if (file.fd.get() >= 0 || (errno != ENOENT && errno != EPERM)) break;
    if (tries > 0) std::this_thread::sleep_for(kPause);
  }
  if (file.fd.get() < 0 && errno == EINVAL) {
    log_info("the disk tier in {} goes through the page cache: its file system refuses O_DIRECT", folder.string());
    file.is_direct = false;
    file.fd = open_nameless(folder, false);
  }
  const int error = errno;
  // The file lives on without the folder.
  if (std::error_code ignored; is_ours) fs::remove(folder, ignored);
  if (file.fd.get() >= 0) return file;
  const bool is_denied = error == EACCES || error == EPERM || error == EROFS || error == ENOTDIR;
  const std::string text = fmt::format(
      "[{}] expected a folder that takes a scratch file, got \"{}\"; check it or name another in memory.disk_paths",
      folder.string(), reason_of(error));
  if (is_denied) throw InputError(text);
  throw MachineError(text);
}

}  // namespace

FileDescriptor open_nameless(const fs::path& folder, bool direct) {
  const int direct_flag = direct ? O_DIRECT : 0;
  FileDescriptor file(::open(folder.c_str(), O_RDWR | O_CLOEXEC | O_TMPFILE | direct_flag, 0600));
  if (file.get() >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  // Uses a name that is gone before anything is written, for file systems without O_TMPFILE. O_DIRECT comes after,
  // because a refused open may leave the name.
  std::string name = (folder / ".spillway-XXXXXX").string();
  file = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (file.get() < 0) return file;
  ::unlink(name.c_str());
  if (direct && ::fcntl(file.get(), F_SETFL, O_DIRECT) != 0) {
    const int error = errno;
    file.close();
    errno = error;
  }
  return file;
}

Scratch::Scratch(const ScratchOptions& options) : bytes_(options.bytes), stripe_bytes_(options.stripe_bytes) {
  SPILLWAY_CHECK(!options.folders.empty(), "a scratch space in no folder");
  SPILLWAY_CHECK(bytes_ >= 0 && bytes_ % kDiskAlignment == 0, "{} bytes", bytes_);
  SPILLWAY_CHECK(stripe_bytes_ > 0 && stripe_bytes_ % kDiskAlignment == 0, "stripes of {} bytes", stripe_bytes_);
  const int64_t files = std::ssize(options.folders);
  const int64_t whole = bytes_ / stripe_bytes_, rest = bytes_ % stripe_bytes_;
  for (int64_t i = 0; i < files; ++i) {
    const int64_t stripes = whole / files + (i < whole % files ? 1 : 0);
    const int64_t bytes = stripes * stripe_bytes_ + (i == whole % files ? rest : 0);
    files_.push_back(open_in(nth(options.folders, i), bytes));
  }
  for (const File& file : files_) reserve(file);
  if (options.checksums) checksums_ = std::make_unique<BlockChecksums>(bytes_);
}

Scratch::Place Scratch::place_of(int64_t offset) const {
  SPILLWAY_CHECK(offset >= 0 && offset < bytes_, "byte {} of {}", offset, bytes_);
  const int64_t stripe = offset / stripe_bytes_, within = offset % stripe_bytes_;
  const int64_t files = std::ssize(files_);
  return {.file = static_cast<int32_t>(stripe % files),
          .offset = stripe / files * stripe_bytes_ + within,
          .bytes = std::min(stripe_bytes_ - within, bytes_ - offset)};
}

}  // namespace spillway
