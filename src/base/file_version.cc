#include "base/file_version.h"

#include <sys/stat.h>

#include <cerrno>

namespace spillway {
namespace {

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

FileVersion file_version(const std::filesystem::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0)
    throw std::filesystem::filesystem_error("stat", path, {errno, std::generic_category()});
  return {status.st_size, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
}

}  // namespace spillway
