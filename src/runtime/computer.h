// Queries the CPU and its scheduler as the operating system presents them. Safe from any thread.
#pragma once

#include <string>
#include <vector>

namespace spillway {

// Returns a name such as "AMD EPYC 9B45" or "Arm Neoverse-V2"; runtime/cpu_name.h has the rules.
[[nodiscard]] std::string cpu_name();
// Returns those of the CPU's instruction sets that kernels here use: avx2, fma, avx512f, avx512_bf16, ...
[[nodiscard]] std::vector<std::string> cpu_features();

// Marks the calling thread as one that sleeps most of the time and that others wait for: when it wakes it gets a core
// from computing threads after a fraction of a millisecond, not after several. It takes none of their time beyond that.
// Needs Linux 6.12 or newer; elsewhere this does nothing.
void wake_promptly();

}  // namespace spillway
