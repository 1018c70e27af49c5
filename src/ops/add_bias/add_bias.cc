#include "ops/add_bias/add_bias.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/column_sums.h"

namespace spillway::ops {

void add_bias_cpu(const KernelArgs& args);
void add_bias_cuda(const KernelArgs& args);
void add_bias_grad_cpu(const KernelArgs& args);
void add_bias_grad_cuda(const KernelArgs& args);

namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType &y = *inputs[0], &bias = *inputs[1];
  expect_real("add_bias", "y", y);
  expect_rank("add_bias", "y", y, 2);
  expect_real("add_bias", "bias", bias);
  expect_same("add_bias", "bias", bias, {bias.dtype, {y.shape[1]}});
  return {y};
}

// Inputs dy and an addend (may be absent); the output is the sum over rows.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  expect_real("add_bias_grad", "dy", *inputs[0]);
  expect_rank("add_bias_grad", "dy", *inputs[0], 2);
  const ValueType out{static_cast<DType>(attributes.integer("dtype")), {inputs[0]->shape[1]}};
  expect_real("add_bias_grad", "the gradient", out);
  if (inputs[1] != nullptr) expect_same("add_bias_grad", "the addend", *inputs[1], out);
  return {out};
}

int64_t grad_workspace_bytes(TypeList, TypeList outputs, const Attributes&, int) {
  return column_sums_bytes(outputs[0]->shape[0]);
}

const OpDef kAddBiasGrad{.name = "add_bias_grad",
                         .infer = infer_grad,
                         .cost = memory_cost,
                         .workspace_bytes = grad_workspace_bytes,
                         .in_place = {{0, 1}},
                         .cpu = add_bias_grad_cpu,
                         .cuda = SPILLWAY_CUDA_KERNEL(add_bias_grad_cuda)};

void vjp(VjpContext& context) {
  if (context.wants(0)) add_cotangent(context, 0, context.cotangent(0));
  if (!context.wants(1)) return;
  const ValueId addend = context.take_addend(1);
  context.add(1, context.builder().append_one(kAddBiasGrad, {context.cotangent(0), addend},
                                              {{"dtype", static_cast<int64_t>(context.gradient_dtype(1))}}));
}

const OpDef kAddBias{.name = "add_bias",
                     .infer = infer,
                     .vjp = vjp,
                     .cost = memory_cost,
                     .in_place = {{0, 0}},
                     .cpu = add_bias_cpu,
                     .cuda = SPILLWAY_CUDA_KERNEL(add_bias_cuda)};

}  // namespace

ValueId add_bias(Builder& builder, ValueId y, ValueId bias) { return builder.append_one(kAddBias, {y, bias}); }

}  // namespace spillway::ops
