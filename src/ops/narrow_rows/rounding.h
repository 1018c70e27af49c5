// Rounds numbers to bf16, for both backends.
#pragma once

#include <bit>
#include <cstdint>

#include "base/random.h"
#include "graph/attributes.h"
#include "ops/optimizers/either_side.h"
#include "tensor/dtype.h"

namespace spillway::ops {

// The number of elements that one block of philox rounds.
constexpr int64_t kRoundedTogether = 8;

struct RoundingKey {
  bool is_stochastic = false;
  uint64_t seed = 0, stream = 0;

  explicit RoundingKey(const Attributes& attributes)
      : is_stochastic(attributes.integer("stochastic") != 0),
        seed(static_cast<uint64_t>(attributes.integer("seed"))),
        stream(static_cast<uint64_t>(attributes.integer("stream"))) {}
  // Returns the key of a step's numbers.
  SPILLWAY_EITHER_SIDE uint64_t of_step(int32_t step) const {
    const auto words = philox(seed, stream, static_cast<uint64_t>(step));
    return uint64_t{words[0]} << 32 | words[1];
  }
};

// Adds `noise` of 16 bits below the last place that bf16 keeps, and cuts off the bits there.
SPILLWAY_EITHER_SIDE inline bf16 round_with(float value, uint32_t noise) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool is_finite = (bits & 0x7F800000) != 0x7F800000;
  const uint32_t rounded = is_finite ? bits + noise : (bits & 0x7FFFFF) != 0 ? bits | 0x400000 : bits;
  return std::bit_cast<bf16>(static_cast<uint16_t>(rounded >> 16));
}

// Rounds elements [begin, end) of the tensor, which are values[0], ...; at most kRoundedTogether, of one block of
// these.
SPILLWAY_EITHER_SIDE inline void round_block(const float* values, int64_t begin, int64_t end, uint64_t step_key,
                                             uint64_t stream, bf16* out) {
  const auto words = philox(step_key, stream, static_cast<uint64_t>(begin / kRoundedTogether));
  for (int64_t at = begin; at < end; ++at) {
    const auto i = static_cast<uint32_t>(at % kRoundedTogether);
    out[at - begin] = round_with(values[at - begin], words[i / 2] >> (i % 2 * 16) & 0xFFFF);
  }
}

}  // namespace spillway::ops
