#include "report/trackers/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "io/file_error.h"

namespace spillway {

AppendFile::AppendFile(std::filesystem::path path, int64_t kept_bytes)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666)) {
  if (file_.get() < 0 || ::lseek(file_.get(), 0, SEEK_END) < 0)
    throw machine_error(path_.string(), "expected to write the file, got {}; check the folder", std::strerror(errno));
  if (::lseek(file_.get(), 0, SEEK_END) > kept_bytes && ::ftruncate(file_.get(), kept_bytes) != 0)
    throw_file_error(path_, "be cut", errno);
}

void AppendFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw_file_error(path_, "be written", written < 0 ? errno : EIO);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void AppendFile::sync() {
  if (::fsync(file_.get()) != 0) throw_file_error(path_, "be brought to the disk", errno);
}

}  // namespace spillway
