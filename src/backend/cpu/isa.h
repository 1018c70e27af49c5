// The instruction sets that the CPU's kernels are made for: portable, avx2, avx512, avx512_bf16, amx_bf16, each
// including those before it. Kernels use the best one that the CPU has, unless the process limits itself to another, so
// that a machine can be measured, and give the bits, as if it were an older one.
#pragma once

#include <string_view>
#include <vector>

namespace spillway::cpu {

// Returns the instruction sets that this CPU runs, in the order above.
[[nodiscard]] const std::vector<std::string_view>& supported_isas();

// Limits all kernels of this process, matrix products and vector operations alike, to one of supported_isas(). Throws
// InputError at `--isa` for any other name. An empty name goes back to the best.
// REQUIRES: no kernel has run in this process.
void limit_isa(std::string_view name);

// Returns the limit that limit_isa() set; empty if the best is used.
[[nodiscard]] std::string_view isa_limit();

// Returns the instruction set that kernels use: the limit, or the last of supported_isas().
[[nodiscard]] std::string_view best_isa();

}  // namespace spillway::cpu
