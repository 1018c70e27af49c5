// The blocks of channels in which selective scans are computed. Sums over channels are taken by blocks, which follow
// from the number of channels alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "ops/selective_scan/operands.h"

namespace spillway::ops {

// On the CPU a block's columns are vectors, one after the other. At most 32 blocks bound the memory of their sums.
constexpr int64_t kScanLanes = 16;  // the most of a vector
[[nodiscard]] inline int64_t scan_block_channels(int64_t channels) {
  constexpr int64_t kMaxBlocks = 32, kMinBlockChannels = 64;
  return std::max(kMinBlockChannels, align_up(div_ceil(channels, kMaxBlocks), kScanLanes));
}
[[nodiscard]] inline int64_t scan_blocks(int64_t channels) { return div_ceil(channels, scan_block_channels(channels)); }
// Returns the floats of a thread's scratch.
[[nodiscard]] inline int64_t scan_thread_floats(const ScanSizes& sizes, bool has_gradient) {
  return ScanScratch::numbers(sizes.state, has_gradient) * kScanLanes;
}

// On a GPU a block is a block of threads, each of which has a channel.
constexpr int kScanThreads = 128;
[[nodiscard]] inline int64_t scan_gpu_blocks(int64_t channels) { return div_ceil(channels, int64_t{kScanThreads}); }
// Returns how many blocks of threads compute those of so many sequences, which they take in turn.
[[nodiscard]] inline int64_t scan_gpu_units(int64_t channels, int64_t sequences) {
  constexpr int64_t kMaxBlocks = 528;  // four for each multiprocessor of a large GPU
  return std::min(kMaxBlocks, scan_gpu_blocks(channels) * sequences);
}
[[nodiscard]] inline int64_t scan_gpu_block_floats(const ScanSizes& sizes, bool has_gradient) {
  return ScanScratch::numbers(sizes.state, has_gradient) * kScanThreads;
}

[[nodiscard]] inline int64_t scan_bytes(int64_t floats) { return floats * static_cast<int64_t>(sizeof(float)); }

}  // namespace spillway::ops
