#include "hub/blob.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/sizes.h"
#include "io/file_error.h"

namespace spillway::hub {
namespace {

constexpr unsigned kMode = 0644;

FileDescriptor open_file(const std::filesystem::path& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (fd.get() < 0) throw_file_error(path, "be written", errno);
  return fd;
}

}  // namespace

BlobLock::BlobLock(const std::filesystem::path& path, const std::string& what, const std::function<bool()>& is_stopped)
    : fd_(open_file(path)) {
  constexpr auto kGlance = std::chrono::milliseconds(100);
  bool is_said = false;
  while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
    if (is_stopped()) {
      fd_.close();
      return;
    }
    if (!std::exchange(is_said, true)) log_info("waiting for another process that fetches {}", what);
    std::this_thread::sleep_for(kGlance);
  }
}

IncompleteBlob::IncompleteBlob(std::filesystem::path blob, int64_t size)
    : blob_(std::move(blob)), path_(blob_.string() + ".incomplete"), fd_(open_file(path_)) {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) throw_file_error(path_, "be read", errno);
  written_ = status.st_size;
  if (size >= 0 && written_ > size) clear();
}

void IncompleteBlob::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_.get(), bytes.data(), bytes.size(), written_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_file_error(path_, "be written", errno);
    written_ += count;
    bytes = subspan_of(bytes, count);
  }
}

void IncompleteBlob::clear() {
  if (::ftruncate(fd_.get(), 0) != 0) throw_file_error(path_, "be written", errno);
  written_ = 0;
}

bool IncompleteBlob::is_right(const std::function<bool()>& is_stopped) const {
  const std::string name = blob_.filename().string();
  const DigestKind kind = digest_kind(name);
  return kind == DigestKind::kNone || file_digest(path_, kind, is_stopped) == name;
}

void IncompleteBlob::complete() {
  if (::fsync(fd_.get()) != 0) throw_file_error(path_, "be written", errno);
  if (::rename(path_.c_str(), blob_.c_str()) != 0) throw_file_error(blob_, "be written", errno);
  fd_.close();
}

}  // namespace spillway::hub
