// The operands of sequence_sum and of its gradient.
#pragma once

#include "backend/kernel.h"
#include "ops/optimizers/either_side.h"

namespace spillway::ops {

// The inputs of both; the first is x, or dy in the gradient.
namespace sequence_sum_op {
enum Input : int { kX, kWeights, kSeqOffsets };
}

struct TokenSpan {
  int64_t begin, end;
};

// The tokens that a row takes, and their factors.
struct SequenceTokens {
  const float* weights;  // null: 1
  const int32_t* offsets;
  int64_t first, stride;
  int64_t tokens;  // that there are

  // `per_token`: x of the sum, or dx of its gradient.
  SequenceTokens(const KernelArgs& args, const TensorView& per_token)
      : weights(args.inputs[sequence_sum_op::kWeights].as<float>()),
        offsets(args.inputs[sequence_sum_op::kSeqOffsets].as<int32_t>()),
        first(args.attributes.integer("first")),
        stride(args.attributes.integer("stride")),
        tokens(per_token.shape[0]) {}

  [[nodiscard]] SPILLWAY_EITHER_SIDE TokenSpan of_row(int64_t row) const {
    const int64_t sequence = first + row * stride;
    return {within(offsets[sequence]), within(offsets[sequence + 1])};
  }
  // Multiplies in f64, where the product of two f32 is exact.
  [[nodiscard]] SPILLWAY_EITHER_SIDE double weighted(float number, int64_t token) const {
    return weights == nullptr ? double{number} : double{number} * double{weights[token]};
  }

 private:
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t within(int64_t offset) const {
    return offset < 0 ? 0 : offset > tokens ? tokens : offset;
  }
};

}  // namespace spillway::ops
