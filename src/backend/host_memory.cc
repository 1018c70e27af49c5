#include "backend/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace spillway {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The number behind `key` in a file of lines "KEY NUMBER ...", or `missing`.
int64_t field_of(const char* path, std::string_view key, int64_t missing) {
  std::ifstream file(path);
  std::string name, rest;
  int64_t number = 0;
  while (file >> name >> number && std::getline(file, rest)) {
    if (name == key) return number;
  }
  return missing;
}

// A number in a file of the control group; no limit where it says "max" or is not there.
int64_t group_bytes(const char* path) {
  std::ifstream file(path);
  int64_t bytes = 0;
  return file >> bytes ? bytes : kNoLimit;
}

}  // namespace

int64_t total_memory_bytes() {
  return std::min(field_of("/proc/meminfo", "MemTotal:", 0) * kKiB, group_bytes("/sys/fs/cgroup/memory.max"));
}

int64_t available_memory_bytes() {
  const int64_t free = field_of("/proc/meminfo", "MemAvailable:", 0) * kKiB;
  const int64_t limit = group_bytes("/sys/fs/cgroup/memory.max");
  const int64_t used = group_bytes("/sys/fs/cgroup/memory.current");
  if (limit == kNoLimit || used == kNoLimit) return free;
  // Files that the group has read count as its own until somebody needs the memory.
  const int64_t reclaimable = field_of("/sys/fs/cgroup/memory.stat", "inactive_file", 0);
  return std::min(free, std::max<int64_t>(0, limit - used + reclaimable));
}

}  // namespace spillway
