#include "ops/draw_token/draw_token.h"

#include "backend/kernel.h"
#include "base/math.h"
#include "ops/check.h"
#include "ops/draw_token/operands.h"
#include "ops/draw_token/token_distribution.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void draw_token_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void draw_token_cuda(const KernelArgs& args);

namespace draw_token_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType& logits = *inputs[kLogits];
  expect_f32("draw_token", "logits", logits);
  expect_rank("draw_token", "logits", logits, 2);
  const ValueType row{DType::kF32, {logits.shape[0]}, logits.axis};
  expect_rank("draw_token", "barred", *inputs[kBarred], 2);
  const int64_t barred = inputs[kBarred]->shape[1];
  expect_same("draw_token", "barred", *inputs[kBarred], {DType::kI32, {logits.shape[0], barred}, logits.axis});
  expect_same("draw_token", "inverse_temperature", *inputs[kInverseTemperature], row);
  expect_same("draw_token", "uniform", *inputs[kUniform], row);
  expect_same("draw_token", "logprob_inverse_temperature", *inputs[kLogprobInverseTemperature], row);
  return {{DType::kI32, row.shape, row.axis}, row};
}

// Returns the bytes for sums of blocks, for each thread.
int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes&, int threads) {
  return threads * div_ceil(inputs[kLogits]->shape[1], kTokenBlock) * int64_t{sizeof(double)};
}

int64_t cuda_workspace_bytes(TypeList, TypeList, const Attributes&) { return 0; }

const OpDef kDrawToken{.name = "draw_token",
                       .infer = infer,
                       .stops_gradients = true,
                       .cost = memory_cost,
                       .workspace_bytes = workspace_bytes,
                       .cuda_workspace_bytes = cuda_workspace_bytes,
                       .cpu = draw_token_cpu,
                       .cuda = draw_token_cuda};

}  // namespace
}  // namespace draw_token_op

DrawnTokens draw_token(Builder& builder, const DrawTokenInputs& inputs) {
  const auto outputs = builder.append(
      draw_token_op::kDrawToken,
      {inputs.logits, inputs.barred, inputs.inverse_temperature, inputs.uniform, inputs.logprob_inverse_temperature});
  return {outputs[draw_token_op::kIds], outputs[draw_token_op::kLogprobs]};
}

}  // namespace spillway::ops
