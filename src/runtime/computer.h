// The CPU and its scheduler, as the operating system has them. Any thread.
#pragma once

#include <string>
#include <vector>

namespace spillway {

// "AMD EPYC 9B45", "Arm Neoverse-V2"; runtime/cpu_name.h has the rules.
[[nodiscard]] std::string cpu_name();
// Those of the CPU's instruction sets that kernels here use: avx2, fma, avx512f, avx512_bf16, ...
[[nodiscard]] std::vector<std::string> cpu_features();

// For a thread that sleeps most of the time and is waited for: when it wakes it gets a core from those that compute
// after a fraction of a millisecond, not after several. It takes none of their time beyond that. Linux 6.12 and newer
// know how; elsewhere this does nothing.
void wake_promptly();

}  // namespace spillway
