// The operands and attributes of embedding_noise, read for the kernels of either side.
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/kernel.h"
#include "base/math.h"
#include "ops/sequence_rows.h"

namespace spillway::ops {

namespace embedding_noise_op {
enum Input : int { kX, kSeed, kSeqOffsets };
}

struct NoiseDraws {
  const int64_t* seed;
  SequenceRows rows;
  uint64_t stream;
  int64_t blocks;     // of philox, a row
  float whole_range;  // twice what is added at most, in a sequence of one row

  explicit NoiseDraws(const KernelArgs& args)
      : seed(args.inputs[embedding_noise_op::kSeed].as<int64_t>()),
        rows(args.inputs[embedding_noise_op::kSeqOffsets]),
        stream(static_cast<uint64_t>(args.attributes.integer("stream"))),
        blocks(div_ceil(args.inputs[embedding_noise_op::kX].shape[1], 4)),
        whole_range(static_cast<float>(2 * args.attributes.real("alpha") /
                                       std::sqrt(static_cast<double>(args.inputs[embedding_noise_op::kX].shape[1])))) {}

  // Returns the range for one row: 0 if it stays unchanged.
  [[nodiscard]] SPILLWAY_EITHER_SIDE float range_at(int64_t row) const {
    const int32_t length = rows.length_at(row);
    return length == 0 || *seed < 0 ? 0 : whole_range / sqrtf(static_cast<float>(length));
  }

  // Returns the first block of philox of a row.
  [[nodiscard]] SPILLWAY_EITHER_SIDE uint64_t first_block(int64_t row) const {
    return static_cast<uint64_t>((row - rows.offsets[0]) * blocks);
  }

  // Returns the noise for 32 random bits.
  [[nodiscard]] static SPILLWAY_EITHER_SIDE float noise_of(uint32_t bits, float range) {
    return (static_cast<float>(bits >> 8) * 0x1p-24f - 0.5f) * range;
  }
};

}  // namespace spillway::ops
