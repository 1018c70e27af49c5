// The operands and attributes of embedding_noise, read for the kernels of either side.
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/kernel.h"
#include "base/math.h"
#include "ops/embedding_noise/embedding_noise.h"
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
  float whole_range;  // twice what is added at most, where L is 1
  NoiseLength length;

  explicit NoiseDraws(const KernelArgs& args)
      : seed(args.inputs[embedding_noise_op::kSeed].as<int64_t>()),
        rows(args.inputs[embedding_noise_op::kSeqOffsets]),
        stream(static_cast<uint64_t>(args.attributes.integer("stream"))),
        blocks(div_ceil(args.inputs[embedding_noise_op::kX].shape[1], 4)),
        whole_range(static_cast<float>(2 * args.attributes.real("alpha") /
                                       std::sqrt(static_cast<double>(args.inputs[embedding_noise_op::kX].shape[1])))),
        length(static_cast<NoiseLength>(args.attributes.integer("length"))) {}

  // Returns twice what is added at most to the rows of sequences: 0 if they stay unchanged.
  [[nodiscard]] SPILLWAY_EITHER_SIDE float range() const {
    int32_t most = rows.offsets[rows.sequences] - rows.offsets[0];
    if (length == NoiseLength::kLongestSequence) {
      most = 0;
      for (int32_t i = 0; i < rows.sequences; ++i) {
        const int32_t one = rows.offsets[i + 1] - rows.offsets[i];
        if (one > most) most = one;
      }
    }
    return most == 0 || *seed < 0 ? 0 : whole_range / sqrtf(static_cast<float>(most));
  }
  // Returns true if a sequence has this row.
  [[nodiscard]] SPILLWAY_EITHER_SIDE bool has(int64_t row) const { return row < rows.offsets[rows.sequences]; }

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
