#include "backend/cpu/isa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwy/targets.h>

#include <algorithm>

#include "backend/cpu/matmul_kernels.h"
#include "base/error.h"
#include "base/text.h"

namespace spillway::cpu {
namespace {

const MatmulKernels* limit = nullptr;

// Highway's bit of a target is lower the more its instruction set has.
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

std::vector<std::string_view> supported_isas() {
  std::vector<std::string_view> names;
  for (const MatmulKernels* kernels : supported_matmul_kernels()) names.emplace_back(kernels->name);
  return names;
}

void limit_isa(std::string_view name) {
  if (name.empty()) {
    limit = nullptr;
    return limit_highway(name);
  }
  const auto all = supported_matmul_kernels();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const MatmulKernels* kernels) { return kernels->name == name; });
  if (found == all.end()) {
    throw input_error("--isa", "expected an instruction set that this CPU runs ({}), got {}; name one of them",
                      fmt::join(supported_isas(), ", "), quote(name));
  }
  limit = *found;
  limit_highway(name);
}

std::string_view isa_limit() { return limit == nullptr ? std::string_view() : limit->name; }

const MatmulKernels& best_matmul_kernels() { return limit == nullptr ? *supported_matmul_kernels().back() : *limit; }

}  // namespace spillway::cpu
