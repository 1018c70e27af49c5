// Loaded into a program before the C library (LD_PRELOAD): makes one of its calls fail, or ends it at one.
//
//   SPILLWAY_FAULT=kill:NAME     SIGKILL once a file has got a name with NAME in its path
//   SPILLWAY_FAULT=write:NAME    the first write to a file with NAME in its path fails with EIO
//   SPILLWAY_FAULT=signal:N:NAME SIGINT at the write number N, from 1, to files with NAME in their path
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

// The part of a fault behind `kind`; null where the fault is another or there is none.
const char* name_of_fault(std::string_view kind) {
  const char* const fault = std::getenv("SPILLWAY_FAULT");
  if (fault == nullptr || !std::string_view(fault).starts_with(kind)) return nullptr;
  return fault + kind.size();
}

template <typename Function>
Function* next_function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool is_of(int fd, const char* name) {
  std::array<char, 4096> path{};
  std::array<char, 64> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  if (::readlink(link.data(), path.data(), path.size() - 1) <= 0) return false;
  return std::strstr(path.data(), name) != nullptr;
}

// Called before each write; returns true where it is to fail.
bool is_to_fail(int fd) {
  static std::atomic<int> writes = 0;
  if (const char* const name = name_of_fault("write:")) return is_of(fd, name) && writes++ == 0;
  if (const char* const rest = name_of_fault("signal:")) {
    char* name = nullptr;
    const long number = std::strtol(rest, &name, 10);
    if (is_of(fd, name + 1) && ++writes == number) ::raise(SIGINT);
  }
  return false;
}

}  // namespace

extern "C" {

int rename(const char* from, const char* to) {
  static auto* const kNext = next_function<int(const char*, const char*)>("rename");
  const int result = kNext(from, to);
  const char* const name = name_of_fault("kill:");
  if (name != nullptr && result == 0 && std::strstr(to, name) != nullptr) ::raise(SIGKILL);
  return result;
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static auto* const kNext = next_function<ssize_t(int, const void*, size_t)>("write");
  if (!is_to_fail(fd)) return kNext(fd, bytes, count);
  errno = EIO;
  return -1;
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  static auto* const kNext = next_function<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (!is_to_fail(fd)) return kNext(fd, bytes, count, offset);
  errno = EIO;
  return -1;
}

}  // extern "C"
