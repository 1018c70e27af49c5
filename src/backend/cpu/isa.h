// The instruction sets that the CPU's kernels are made for: portable, avx2, avx512, avx512_bf16, amx_bf16, each
// including those before it. The best one that the CPU has is used, unless the process limits itself to another, so
// that a machine can be measured, and its bits be had, as if it were an older one.
#pragma once

#include <string_view>
#include <vector>

namespace spillway::cpu {

// Those that this CPU runs, in the order above.
[[nodiscard]] const std::vector<std::string_view>& supported_isas();

// Limits all kernels of this process, matrix products and vector operations alike, to one of supported_isas(). Throws
// InputError at `--isa` where it is none of them. An empty name goes back to the best.
// REQUIRES: no kernel has run in this process.
void limit_isa(std::string_view name);

// What limit_isa() set; empty where the best is used.
[[nodiscard]] std::string_view isa_limit();

// What kernels use: the limit, or the last of supported_isas().
[[nodiscard]] std::string_view best_isa();

}  // namespace spillway::cpu
