#include "ops/matmul/cpu/kernels.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "backend/cpu/isa.h"
#include "base/error.h"

namespace spillway::cpu {

extern const MatmulKernels kPortableKernels, kAvx2Kernels, kAvx512Kernels, kAvx512Bf16Kernels, kAmxBf16Kernels;

namespace {

// All kernels, in the order of supported_isas().
constexpr std::array kAllKernels = {
    &kPortableKernels,
#if defined(__x86_64__)
    &kAvx2Kernels,     &kAvx512Kernels, &kAvx512Bf16Kernels, &kAmxBf16Kernels,
#endif
};

}  // namespace

std::span<const MatmulKernels* const> supported_matmul_kernels() {
  return std::span(kAllKernels).first(supported_isas().size());
}

// Called before every product: mostly it is the last of them.
const MatmulKernels& best_matmul_kernels() {
  const auto supported = supported_matmul_kernels();
  const auto found = std::find_if(supported.rbegin(), supported.rend(),
                                  [](const MatmulKernels* kernels) { return kernels->name == best_isa(); });
  SPILLWAY_CHECK(found != supported.rend(), "no products for {}", best_isa());
  return **found;
}

}  // namespace spillway::cpu
