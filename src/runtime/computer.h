// What the operating system says about this computer, and what it is asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// "AMD EPYC 9B45"; "unknown CPU" where the system does not say.
[[nodiscard]] std::string cpu_name();
// Those of the CPU's instruction sets that kernels here use: avx2, fma, avx512f, avx512_bf16, ...
[[nodiscard]] std::vector<std::string> cpu_features();

// Memory of the computer, or of the control group that this process runs in, whichever is less.
[[nodiscard]] int64_t total_memory_bytes();
// What of it can be had without swapping.
[[nodiscard]] int64_t available_memory_bytes();

// The folder, or the nearest one above it that is there.
[[nodiscard]] std::filesystem::path existing_folder(const std::filesystem::path& folder);

// "8:1 259:3": the numbers that the system gives the file systems of these folders, which need not exist yet, in
// ascending order. Over folders with equal text, data is striped over the same disks in the same shares.
[[nodiscard]] std::string disks_of(std::span<const std::string> folders);

// Free bytes of the file system that holds `folder`, which need not exist yet; 0 where none can be told.
[[nodiscard]] int64_t free_disk_bytes(const std::filesystem::path& folder);
// What can be striped evenly over these folders, some of which may be on one file system. REQUIRES: at least one.
[[nodiscard]] int64_t free_striped_bytes(std::span<const std::string> folders);

// For a thread that sleeps most of the time and is waited for: when it wakes it gets a core from those that compute
// after a fraction of a millisecond, not after several. It takes none of their time beyond that. Linux 6.12 and newer
// know how; elsewhere this does nothing.
void wake_promptly();

}  // namespace spillway
