#include "runtime/computer.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <unordered_set>

#include "runtime/cpu_name.h"

namespace spillway {
namespace {

// Returns the value of the first `key : value` line of a file of /proc.
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

// Returns the text of a file that the kernel generates as it is read; empty if it is not there.
std::string text_of(const char* path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

std::string cpu_name() { return cpu_name_in(text_of("/proc/cpuinfo"), text_of("/sys/firmware/devicetree/base/model")); }

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
