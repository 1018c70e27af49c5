#include "runtime/process_memory.h"

#include <malloc.h>

#include <fstream>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace spillway {
namespace {

int64_t status_bytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with(key)) return std::stoll(line.substr(key.size())) * kKiB;
  }
  return 0;
}

}  // namespace

int64_t peak_rss_bytes() { return status_bytes("VmHWM:"); }
int64_t current_rss_bytes() { return status_bytes("VmRSS:"); }
void release_free_memory() { malloc_trim(0); }

}  // namespace spillway
