#include "runtime/process_memory.h"

#include <malloc.h>

#include <filesystem>
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

int64_t unread_program_bytes() {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return 0;
  // A mapping's line ends with its file; lines "Size:" and "Rss:" follow it.
  std::ifstream mappings("/proc/self/smaps");
  std::string line;
  bool is_program = false;
  int64_t bytes = 0;
  const auto add = [&](std::string_view key, int64_t sign) {
    if (is_program && line.starts_with(key)) bytes += sign * std::stoll(line.substr(key.size())) * kKiB;
  };
  while (std::getline(mappings, line)) {
    if (line.find('-') < line.find(' ')) is_program = line.ends_with(program);
    add("Size:", 1);
    add("Rss:", -1);
  }
  return bytes;
}

void release_free_memory() { malloc_trim(0); }

}  // namespace spillway
