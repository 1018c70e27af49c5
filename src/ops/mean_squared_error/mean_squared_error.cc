#include "ops/mean_squared_error/mean_squared_error.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/mean_squared_error/operands.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void mean_squared_error_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void mean_squared_error_cuda(const KernelArgs& args);
void mean_squared_error_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void mean_squared_error_grad_cuda(const KernelArgs& args);

namespace mean_squared_error_op {
namespace {

void expect_operands(std::string_view op, TypeList inputs) {
  const ValueType &prediction = *inputs[kPrediction], &target = *inputs[kTarget], &weights = *inputs[kWeights];
  const ValueType& offsets = *inputs[kSeqOffsets];
  expect_real(op, "the prediction", prediction);
  expect_rank(op, "the prediction", prediction, 2);
  expect_real(op, "the target", target);
  expect_same(op, "the target", target, {target.dtype, prediction.shape, prediction.axis});
  expect_f32(op, "weights", weights);
  expect_rank(op, "weights", weights, 1);
  expect_rank(op, "seq_offsets", offsets, 1);
  if (offsets.dtype != DType::kI32 || offsets.follows_axis() || offsets.shape[0] <= weights.shape[0]) {
    throw input_error(op, "expected seq_offsets as i32 of at least {}, got {}; check the model's sizes",
                      weights.shape[0] + 1, to_string(offsets));
  }
}

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_operands("mean_squared_error", inputs);
  return {{DType::kF32, {1}}, *inputs[kWeights]};
}

std::vector<ValueType> infer_grad(TypeList inputs, const Attributes&) {
  constexpr std::string_view kName = "mean_squared_error_grad";
  expect_operands(kName, inputs);
  if (inputs[kDy] != nullptr) expect_scalar(kName, "dy", *inputs[kDy], DType::kF32);
  return {*inputs[kPrediction]};
}

// Returns the bytes of the sum of each token's squares, f64 [T].
int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes&, int) {
  return inputs[kPrediction]->shape[0] * int64_t{sizeof(double)};
}

const OpDef kMeanSquaredErrorGrad{.name = "mean_squared_error_grad",
                                  .infer = infer_grad,
                                  .cost = memory_cost,
                                  .in_place = {{0, 0}, {0, 1}},
                                  .cpu = mean_squared_error_grad_cpu,
                                  .cuda = mean_squared_error_grad_cuda};

void vjp(VjpContext& context) {
  for (const int i : {kTarget, kWeights}) {
    if (context.wants(i)) {
      throw input_error("mean_squared_error", "expected {} without a gradient, got one that is trained; detach it",
                        i == kTarget ? "a target" : "weights");
    }
  }
  if (!context.wants(kPrediction)) return;
  context.add(kPrediction,
              context.builder().append_one(kMeanSquaredErrorGrad,
                                           {context.input(kPrediction), context.input(kTarget), context.input(kWeights),
                                            context.input(kSeqOffsets), context.cotangent(0)}));
}

const OpDef kMeanSquaredError{.name = "mean_squared_error",
                              .infer = infer,
                              .vjp = vjp,
                              .cost = memory_cost,
                              .workspace_bytes = workspace_bytes,
                              .cpu = mean_squared_error_cpu,
                              .cuda = mean_squared_error_cuda};

}  // namespace
}  // namespace mean_squared_error_op

SequenceErrors mean_squared_error(Builder& builder, ValueId prediction, ValueId target, ValueId weights,
                                  ValueId seq_offsets) {
  const std::vector<ValueId> outputs =
      builder.append(mean_squared_error_op::kMeanSquaredError, {prediction, target, weights, seq_offsets});
  return {outputs[0], outputs[1]};
}

}  // namespace spillway::ops
