// What the kernels of quantised_matmul agree on with its description.
#pragma once

#include "backend/kernel.h"
#include "ops/matmul/matmul_shape.h"
#include "ops/quantised_matmul/quantised_weight.h"

namespace spillway::ops::quantised_input {

enum : int { kX, kAddend, kBias, kParts };  // the parts are last; only some formats have a third

}  // namespace spillway::ops::quantised_input

namespace spillway::ops {

[[nodiscard]] QuantisedFormat quantised_format(const Attributes& attributes);
[[nodiscard]] QuantisedWeight weight_of(const KernelArgs& args);

// On a GPU the decoded weight stands at the start of the workspace, and the product's own behind these bytes.
[[nodiscard]] int64_t decoded_bytes(const Attributes& attributes, DType dtype);

}  // namespace spillway::ops
