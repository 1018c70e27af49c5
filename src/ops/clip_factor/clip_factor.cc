#include "ops/clip_factor/clip_factor.h"

#include "backend/kernel.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void clip_factor_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void clip_factor_cuda(const KernelArgs& args);

namespace clip_factor_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  for (const ValueType* input : inputs) expect_scalar("clip_factor", "a squared norm", *input, DType::kF32);
  return {{DType::kF32, {1}}, {DType::kF32, {1}}};
}

// Returns the bytes on the GPU for the sum of the pieces so far.
int64_t cuda_workspace_bytes(TypeList, TypeList, const Attributes&) { return sizeof(double); }

const OpDef kClipFactor{.name = "clip_factor",
                        .infer = infer,
                        .cost = memory_cost,
                        .cuda_workspace_bytes = cuda_workspace_bytes,
                        .cpu = clip_factor_cpu,
                        .cuda = clip_factor_cuda};

}  // namespace
}  // namespace clip_factor_op

ClipFactor clip_factor(Builder& builder, std::span<const ValueId> squared_norms, double max_norm) {
  const std::vector<ValueId> outputs = builder.append(
      clip_factor_op::kClipFactor, {squared_norms.begin(), squared_norms.end()}, {{"max_norm", max_norm}});
  return {outputs[0], outputs[1]};
}

}  // namespace spillway::ops
