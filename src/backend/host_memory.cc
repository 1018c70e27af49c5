#include "backend/host_memory.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/cgroup.h"

namespace spillway {
namespace {

// Returns the bytes of a line "KEY NUMBER kB" of /proc/meminfo; 0 if there is none.
int64_t memory_info(std::string_view key) {
  std::ifstream file("/proc/meminfo");
  std::string name, rest;
  int64_t number = 0;
  while (file >> name >> number && std::getline(file, rest)) {
    if (name == key) return number * kKiB;
  }
  return 0;
}

}  // namespace

int64_t total_memory_bytes() { return std::min(memory_info("MemTotal:"), ControlGroups().memory_limit()); }

int64_t available_memory_bytes() { return std::min(memory_info("MemAvailable:"), ControlGroups().available_memory()); }

}  // namespace spillway
