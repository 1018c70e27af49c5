#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/bytes.h"
#include "base/error.h"
#include "io/file.h"
#include "runtime/computer.h"
#include "runtime/measure.h"

namespace spillway {
namespace {

constexpr int64_t kBlock = 4 * kMiB;
constexpr double kSeconds = 1;  // of writing, and of reading

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct FreeDeleter {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// A file without a name in `folder`, or in the nearest folder above it that is there.
FileDescriptor open_nameless(std::filesystem::path folder, bool direct) {
  std::error_code error;
  folder = std::filesystem::absolute(folder, error);
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  const int flags = O_RDWR | O_CLOEXEC | (direct ? O_DIRECT : 0);
  const int fd = ::open(folder.c_str(), flags | O_TMPFILE, 0600);
  if (fd >= 0) return FileDescriptor(fd);
  // File systems without O_TMPFILE: a name that is gone before anything is written.
  std::string name = (folder / ".spillway-XXXXXX").string();
  FileDescriptor file(::mkostemp(name.data(), flags & ~(O_RDWR)));
  if (file.get() >= 0) ::unlink(name.c_str());
  return file;
}

// Moves blocks until the file or the time is used up; bytes a second, or -1 with errno.
template <typename Move>
double rate_of(int64_t bytes, const Move& move, const FileDescriptor& file, bool sync, int64_t& done) {
  const double begin = now();
  done = 0;
  while (done < bytes && now() - begin < kSeconds) {
    const ssize_t moved = move(done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved != kBlock) {
      if (moved >= 0) errno = ENOSPC;
      return -1;
    }
    done += kBlock;
  }
  if (sync && ::fdatasync(file.get()) != 0) return -1;
  return static_cast<double>(done) / std::max(now() - begin, 1e-9);
}

}  // namespace

DiskRates measure_disk(const std::filesystem::path& folder, int64_t most_bytes) {
  DiskRates rates;
  const int64_t bytes = std::min(most_bytes, free_disk_bytes(folder) / 8) / kBlock * kBlock;
  if (bytes == 0) {
    rates.problem = fmt::format("less than {} free", format_bytes(8 * kBlock));
    return rates;
  }
  FileDescriptor file = open_nameless(folder, true);
  rates.is_direct = file.get() >= 0;
  if (!rates.is_direct) file = open_nameless(folder, false);
  if (file.get() < 0) {
    rates.problem = std::strerror(errno);
    return rates;
  }
  const std::unique_ptr<std::byte, FreeDeleter> block(static_cast<std::byte*>(std::aligned_alloc(4096, kBlock)));
  // Not zeros, which some disks do not write.
  uint64_t noise = 88172645463325252u;
  for (int64_t i = 0; i < kBlock; i += 8) {
    noise ^= noise << 13;
    noise ^= noise >> 7;
    noise ^= noise << 17;
    std::memcpy(block.get() + i, &noise, 8);
  }
  int64_t written = 0, read = 0;
  const auto write_block = [&](int64_t offset) { return ::pwrite(file.get(), block.get(), kBlock, offset); };
  const auto read_block = [&](int64_t offset) { return ::pread(file.get(), block.get(), kBlock, offset); };
  rates.write_bytes_per_second = rate_of(bytes, write_block, file, true, written);
  if (rates.write_bytes_per_second >= 0) {
    ::posix_fadvise(file.get(), 0, written, POSIX_FADV_DONTNEED);
    rates.read_bytes_per_second = rate_of(written, read_block, file, false, read);
  }
  if (rates.write_bytes_per_second < 0 || rates.read_bytes_per_second < 0) {
    rates = {.problem = std::strerror(errno)};
  }
  return rates;
}

}  // namespace spillway
