// Assigns offsets in an arena: buffers whose lifetimes meet may not overlap.
//
// Offline dynamic storage allocation is NP-complete, but training graphs are kind: saved activations nest like a stack.
// First everything is placed in the order of birth, long-lived buffers from the bottom and short-lived ones from the
// top, within a height close to the lower bound (the largest sum of simultaneously live bytes); that almost always
// works. Otherwise several orders of first fit are tried, then the buffers at the peak are moved forward in the best
// one (in the spirit of the iterated greedy of TensorFlow Lite Micro's and MiniMalloc's heuristics) until the bound is
// met or the rounds are used up. Deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/operation.h"

namespace spillway {

constexpr int64_t kArenaAlignment = 64;
// Returns the alignment in a device's own memory, which its libraries need for scratch and wide accesses for the rest.
[[nodiscard]] constexpr int64_t arena_alignment(DeviceKind kind) {
  return kind == DeviceKind::kCuda ? 256 : kArenaAlignment;
}

struct Interval {
  int64_t bytes = 0;
  int32_t begin = 0;  // half-open
  int32_t end = 0;
  int64_t alignment = kArenaAlignment;  // a power of two, and no less; the interval takes whole multiples of this
};

struct Packing {
  std::vector<int64_t> offsets;  // one an interval, multiples of its alignment
  int64_t bytes = 0;             // the arena: the end of the highest interval
  int64_t lower_bound = 0;       // with every interval padded to the alignment, so `bytes` may be a little less
};

// kQuick takes milliseconds and may end a few percent above the bound; kThorough goes on from there.
enum class PackEffort : uint8_t { kQuick, kThorough };

// Packs the intervals; lifetimes are in steps of any clock. Pure: equal intervals get equal offsets.
[[nodiscard]] Packing pack(std::span<const Interval> intervals, PackEffort effort = PackEffort::kThorough);

}  // namespace spillway
