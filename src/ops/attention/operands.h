// The operands of a kernel of attention, for the CPU's passes and for the GPU's, whose structs have the same names.
#pragma once

#include <cstddef>

#include "backend/kernel.h"
#include "ops/real_or.h"

namespace spillway::ops {

// The input of attention and of its gradient that is present if keys are of another stream: that stream's offsets.
constexpr size_t kKeyOffsets = 4, kKeyOffsetsOfGrad = 7;

// Reads inputs 0 to 2, which are q, k and v, and the attributes. Leaves the rest of a pass unset: sequences, outputs,
// strides.
template <typename Args>
Args attention_operands(const KernelArgs& args) {
  const TensorView& q = args.inputs[0];
  Args result;
  result.tokens = q.shape[0];
  result.heads = args.attributes.integer("heads");
  result.kv_heads = args.attributes.integer("kv_heads");
  result.head_size = args.attributes.integer("head_size");
  result.scale = static_cast<float>(args.attributes.real("scale"));
  result.soft_cap = static_cast<float>(real_or(args.attributes, "soft_cap", 0));
  result.window = args.attributes.integer("sliding_window");
  result.is_causal = args.attributes.integer_or("causal", 1) != 0;
  result.dtype = q.dtype;
  result.q = q.data;
  result.k = args.inputs[1].data;
  result.v = args.inputs[2].data;
  return result;
}

}  // namespace spillway::ops
