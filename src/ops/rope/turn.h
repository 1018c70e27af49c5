// The operands and attributes of rope, read for the kernels of either side.
#pragma once

#include <cstdint>

#include "backend/kernel.h"
#include "ops/optimizers/either_side.h"
#include "ops/rope/rope.h"
#include "ops/sequence_rows.h"

namespace spillway::ops {

// The offsets are those of RopeByLength, or absent.
namespace rope_op {
enum Input : int { kX, kPositions, kInvFreq, kOffsets };
}

struct Turn {
  const int32_t* positions;
  const float* inv_freq;
  SequenceRows rows;  // undivided: there is one kind of sequences
  int32_t max_short;
  int32_t head_size, half;  // S and R / 2
  int32_t sign, is_of_pairs;
  int32_t growth_length;
  float scaling;
  double growth;

  explicit Turn(const KernelArgs& args)
      : positions(args.inputs[rope_op::kPositions].as<int32_t>()),
        inv_freq(args.inputs[rope_op::kInvFreq].as<float>()),
        rows(args.inputs[rope_op::kOffsets]),
        max_short(static_cast<int32_t>(args.attributes.integer("max_short"))),
        head_size(static_cast<int32_t>(args.attributes.integer("head_size"))),
        half(static_cast<int32_t>(args.inputs[rope_op::kInvFreq].elems() / (rows.offsets != nullptr ? 2 : 1))),
        sign(static_cast<int32_t>(args.attributes.integer("sign"))),
        is_of_pairs(static_cast<int32_t>(args.attributes.integer("layout")) ==
                    static_cast<int32_t>(RopeLayout::kPairs)),
        growth_length(static_cast<int32_t>(args.attributes.integer("growth_length"))),
        scaling(static_cast<float>(args.attributes.real("attention_scaling"))),
        growth(args.attributes.real("growth")) {}

  // Returns the angles of a row.
  [[nodiscard]] SPILLWAY_EITHER_SIDE const float* frequencies_of(int64_t row) const {
    return rows.length_at(row) > max_short ? inv_freq + half : inv_freq;
  }

  // Returns the scaling of cos and sin.
  [[nodiscard]] SPILLWAY_EITHER_SIDE float scaling_of(int64_t row) const {
    const int32_t lengths = positions[row] / growth_length;
    return lengths == 0 ? scaling : static_cast<float>(scaling * (1 + growth * logarithm(1.0 + lengths)));
  }
};

}  // namespace spillway::ops
