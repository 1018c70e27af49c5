#include "backend/cpu/isa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwy/targets.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace spillway::cpu {
namespace {

std::string_view limit;

#if defined(__x86_64__)
// Returns true if the CPU has tiles of bf16 and the system lets this process use them.
[[gnu::target("xsave")]] bool enable_amx_bf16() {
  constexpr unsigned kTiles = 1u << 24, kBf16 = 1u << 22;             // of the CPU: leaf 7, edx
  constexpr unsigned long long kTileState = (1u << 17) | (1u << 18);  // the state that the system saves: XCR0
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTiles) == 0 || (d & kBf16) == 0) return false;
  if ((_xgetbv(0) & kTileState) != kTileState) return false;
#if defined(__linux__)
  // Linux gives the registers to processes that ask (kernel documentation, x86/xstate).
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

std::vector<std::string_view> find_supported() {
  std::vector<std::string_view> names = {"portable"};
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return names;
  names.emplace_back("avx2");
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return names;
  names.emplace_back("avx512");
  if (!__builtin_cpu_supports("avx512bf16")) return names;
  names.emplace_back("avx512_bf16");
  if (enable_amx_bf16()) names.emplace_back("amx_bf16");
#endif
  return names;
}

// Limits Highway, whose bit of a target is lower the more its instruction set has.
void limit_highway(std::string_view name) {
#if defined(__x86_64__)
  hwy::DisableTargets(0);
  if (name == "portable") hwy::DisableTargets((HWY_AVX2 << 1) - 1);
  if (name == "avx2") hwy::DisableTargets(HWY_AVX2 - 1);
#else
  static_cast<void>(name);
#endif
}

}  // namespace

const std::vector<std::string_view>& supported_isas() {
  static const std::vector<std::string_view> kSupported = find_supported();
  return kSupported;
}

void limit_isa(std::string_view name) {
  const auto& all = supported_isas();
  const auto found = std::find(all.begin(), all.end(), name);
  if (found == all.end() && !name.empty()) {
    throw input_error("--isa", "expected an instruction set that this CPU runs ({}), got {}; name one of them",
                      fmt::join(all, ", "), quote(name));
  }
  limit = name.empty() ? std::string_view() : *found;
  limit_highway(limit);
}

std::string_view isa_limit() { return limit; }

std::string_view best_isa() { return limit.empty() ? supported_isas().back() : limit; }

}  // namespace spillway::cpu
