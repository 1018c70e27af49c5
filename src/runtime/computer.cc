#include "runtime/computer.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <unordered_set>

#include "base/bytes.h"

namespace spillway {
namespace {

// The value of the first `key : value` line of a file of /proc.
std::string field_of(const char* path, std::string_view key) {
  std::ifstream stream(path);
  std::string line;
  while (std::getline(stream, line)) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

int64_t memory_field_bytes(std::string_view key) {
  std::istringstream field(field_of("/proc/meminfo", key));
  int64_t kib = 0;
  field >> kib;
  return kib * kKiB;
}

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// A number in a file of the control group; no limit where it says "max" or is not there.
int64_t group_bytes(const char* path) {
  std::ifstream stream(path);
  int64_t bytes = 0;
  return stream >> bytes ? bytes : kNoLimit;
}

dev_t disk_of(const std::string& folder) {
  struct stat status {};
  return ::stat(existing_folder(folder).c_str(), &status) == 0 ? status.st_dev : dev_t{0};
}

}  // namespace

std::string cpu_name() {
  const std::string name = field_of("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown CPU" : name;
}

std::vector<std::string> cpu_features() {
  constexpr std::array kUsed = {"avx2",        "fma",         "f16c",     "avx512f",  "avx512bw", "avx512_vnni",
                                "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "asimd",    "bf16"};
  std::string flags = field_of("/proc/cpuinfo", "flags");
  if (flags.empty()) flags = field_of("/proc/cpuinfo", "Features");
  std::istringstream stream(flags);
  const std::unordered_set<std::string> present{std::istream_iterator<std::string>(stream), {}};
  std::vector<std::string> found;
  std::copy_if(kUsed.begin(), kUsed.end(), std::back_inserter(found),
               [&](const char* one) { return present.count(one) > 0; });
  return found;
}

int64_t total_memory_bytes() {
  return std::min(memory_field_bytes("MemTotal"), group_bytes("/sys/fs/cgroup/memory.max"));
}

int64_t available_memory_bytes() {
  const int64_t free = memory_field_bytes("MemAvailable");
  const int64_t limit = group_bytes("/sys/fs/cgroup/memory.max");
  const int64_t used = group_bytes("/sys/fs/cgroup/memory.current");
  if (limit == kNoLimit || used == kNoLimit) return free;
  return std::min(free, std::max<int64_t>(0, limit - used));
}

std::filesystem::path existing_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(folder, error);
  while (!error && !std::filesystem::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  return at;
}

std::string disks_of(std::span<const std::string> folders) {
  std::multiset<dev_t> disks;
  for (const std::string& folder : folders) disks.insert(disk_of(folder));
  std::string text;
  for (const dev_t disk : disks) text += fmt::format("{}{}:{}", text.empty() ? "" : " ", major(disk), minor(disk));
  return text;
}

int64_t free_disk_bytes(const std::filesystem::path& folder) {
  std::error_code error;
  const auto space = std::filesystem::space(existing_folder(folder), error);
  return error ? 0 : static_cast<int64_t>(std::min<uintmax_t>(space.available, kNoLimit));
}

int64_t free_striped_bytes(std::span<const std::string> folders) {
  std::map<dev_t, int64_t> stripes;  // by file system
  for (const std::string& folder : folders) ++stripes[disk_of(folder)];
  int64_t least = kNoLimit;
  for (const std::string& folder : folders) least = std::min(least, free_disk_bytes(folder) / stripes[disk_of(folder)]);
  return least * std::ssize(folders);
}

void wake_promptly() {
  // The kernel's struct sched_attr; its own header cannot stand beside the C library's.
  struct {
    uint32_t size = 48, policy = 0;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 0, deadline = 0, period = 0;
  } attributes;
  static_assert(sizeof(attributes) == 48);
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime = 100'000;  // the shortest time slice that there is, in nanoseconds
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace spillway
