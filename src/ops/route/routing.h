// The attributes of route, and the order in which experts are chosen, which its kernels share.
#pragma once

#include <cstdint>
#include <cstring>

#include "graph/attributes.h"
#include "ops/optimizers/either_side.h"
#include "ops/route/route.h"

namespace spillway::ops {

namespace route_op {
// The inputs of route; the bias may be absent.
enum Input : int { kLogits, kBias };
// The inputs of its gradient behind kLogits.
enum GradInput : int { kExperts = 1, kDWeights };
}  // namespace route_op

// The options of route, for kernels.
struct Routing {
  int64_t experts = 0, top_k = 0;
  RouteScore score = RouteScore::kSoftmax;
  bool normalises = false;
  float epsilon = 0, scale = 1;
  int64_t groups = 1, top_groups = 1, best_of_group = 1;
};
[[nodiscard]] Routing routing_of(const Attributes& attributes, int64_t experts);

// Returns a number that is the larger the earlier a score at `index` is chosen: larger scores first, then lower
// indices, and NaN last. It is never 0.
[[nodiscard]] SPILLWAY_EITHER_SIDE inline uint64_t choice_key(float score, int64_t index) {
  constexpr uint32_t kSign = 0x80000000, kBelowAllNumbers = 1;
  uint32_t bits = kBelowAllNumbers;
  if (score == score) {
    const float canonical = score == 0 ? 0 : score;  // -0 equals 0
    std::memcpy(&bits, &canonical, sizeof(bits));
    bits = (bits & kSign) != 0 ? ~bits : bits | kSign;
  }
  return uint64_t{bits} << 32 | (0xFFFFFFFF - static_cast<uint64_t>(index));
}
// Returns the index of a key.
[[nodiscard]] SPILLWAY_EITHER_SIDE inline int32_t index_of_key(uint64_t key) {
  return static_cast<int32_t>(0xFFFFFFFF - (key & 0xFFFFFFFF));
}
// Returns the key behind all of a group that is not chosen.
[[nodiscard]] SPILLWAY_EITHER_SIDE inline uint64_t key_of_masked(uint64_t key) { return key & 0xFFFFFFFF; }

}  // namespace spillway::ops
