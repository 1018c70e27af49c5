// Offsets in an arena: buffers whose lifetimes meet may not overlap.
//
// Offline dynamic storage allocation is NP-complete; first fit in a good order is close to the lower bound (the largest
// sum of simultaneously live bytes) on training graphs, because saved activations nest like a stack. Several orders are
// tried, then the buffers at the peak are moved forward in the best one (in the spirit of the iterated greedy of
// TensorFlow Lite Micro's and MiniMalloc's heuristics) until the bound is met or the rounds are used up. Deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spillway {

constexpr int64_t kArenaAlignment = 64;

struct Interval {
  int64_t bytes = 0;
  int32_t begin = 0;  // half-open
  int32_t end = 0;
  int64_t alignment = kArenaAlignment;  // a multiple of it; the interval takes whole multiples of this
};

struct Packing {
  std::vector<int64_t> offsets;  // one an interval, multiples of its alignment
  int64_t bytes = 0;             // the arena: the end of the highest interval
  int64_t lower_bound = 0;       // with every interval padded to the alignment, so `bytes` may be a little less
};

[[nodiscard]] Packing pack(std::span<const Interval> intervals);

}  // namespace spillway
