// Definitions shared by the kernels of quantised_matmul and its description.
#pragma once

#include <array>

#include "backend/kernel.h"
#include "ops/matmul/matmul_shape.h"
#include "ops/quantised_matmul/quantised_weight.h"

namespace spillway::ops::quantised_matmul_op {

enum Input : int { kX, kAddend, kBias, kTailA, kTailB, kParts };  // the parts are last; only some formats have a third

}  // namespace spillway::ops::quantised_matmul_op

namespace spillway::ops {

// The constants of an operation that say its weight's format and shape, and the format that they say.
void add_weight(Attributes& attributes, const QuantisedFormat& format, int64_t rows, int64_t columns);
[[nodiscard]] QuantisedFormat quantised_format(const Attributes& attributes);
[[nodiscard]] QuantisedWeight weight_of(const KernelArgs& args);

// Returns the operands of matmul, of which `weight` stands for the decoded one.
[[nodiscard]] std::array<TensorView, matmul_op::kInputs> decoded_operands(const KernelArgs& args,
                                                                          const TensorView& weight);

// Returns the bytes of the decoded weight, which on a GPU is at the start of the workspace, before the product's own.
[[nodiscard]] int64_t decoded_bytes(const Attributes& attributes, DType dtype);

}  // namespace spillway::ops
