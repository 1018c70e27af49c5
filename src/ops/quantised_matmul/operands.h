// Definitions shared by the kernels of quantised_matmul and its description.
#pragma once

#include "backend/kernel.h"
#include "ops/matmul/matmul_shape.h"
#include "ops/quantised_matmul/quantised_weight.h"

namespace spillway::ops::quantised_matmul_op {

enum Input : int { kX, kAddend, kBias, kParts };  // the parts are last; only some formats have a third

}  // namespace spillway::ops::quantised_matmul_op

namespace spillway::ops {

[[nodiscard]] QuantisedFormat quantised_format(const Attributes& attributes);
[[nodiscard]] QuantisedWeight weight_of(const KernelArgs& args);

// Returns the bytes of the decoded weight, which on a GPU is at the start of the workspace, before the product's own.
[[nodiscard]] int64_t decoded_bytes(const Attributes& attributes, DType dtype);

}  // namespace spillway::ops
