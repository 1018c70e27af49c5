#include "ops/add_expert_bias/add_expert_bias.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/add_expert_bias/operands.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void add_expert_bias_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void add_expert_bias_cuda(const KernelArgs& args);
void add_expert_bias_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void add_expert_bias_grad_cuda(const KernelArgs& args);

namespace add_expert_bias_op {
namespace {

constexpr std::string_view kName = "add_expert_bias", kGradName = "add_expert_bias_grad";

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType &rows = *inputs[kRows], &bias = *inputs[kBias];
  expect_real(kName, "rows", rows);
  expect_rank(kName, "rows", rows, 2);
  expect_real(kName, "bias", bias);
  expect_rank(kName, "bias", bias, 2);
  expect_divides(kName, "rows of a token", bias.shape[1], rows.shape[1]);
  expect_same(kName, "offsets", *inputs[kOffsets], {DType::kI32, {bias.shape[0] + 1}});
  return {rows};
}

// Returns the gradient of the bias, [E, "width"] of "dtype".
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  const ValueType& dy = *inputs[kDy];
  expect_real(kGradName, "dy", dy);
  expect_rank(kGradName, "dy", dy, 2);
  const int64_t width = attributes.integer("width");
  expect_divides(kGradName, "rows of a token", width, dy.shape[1]);
  return {{static_cast<DType>(attributes.integer("dtype")), {inputs[kGradOffsets]->shape[0] - 1, width}}};
}

const OpDef kAddExpertBiasGrad{.name = kGradName,
                               .infer = infer_grad,
                               .cost = memory_cost,
                               .cpu = add_expert_bias_grad_cpu,
                               .cuda = add_expert_bias_grad_cuda};

void vjp(VjpContext& context) {
  const ValueId dy = context.cotangent(0);
  if (context.wants(kRows)) context.add(kRows, dy);
  if (!context.wants(kBias)) return;
  context.add(kBias, context.builder().append_one(kAddExpertBiasGrad, {dy, context.input(kOffsets)},
                                                  {{"width", context.input_type(kBias).shape[1]},
                                                   {"dtype", static_cast<int64_t>(context.gradient_dtype(kBias))}}));
}

const OpDef kAddExpertBias{.name = kName,
                           .infer = infer,
                           .vjp = vjp,
                           .cost = memory_cost,
                           .in_place = {{0, kRows}},
                           .cpu = add_expert_bias_cpu,
                           .cuda = add_expert_bias_cuda};

}  // namespace
}  // namespace add_expert_bias_op

ValueId add_expert_bias(Builder& builder, ValueId rows, ValueId bias, ValueId offsets) {
  return builder.append_one(add_expert_bias_op::kAddExpertBias, {rows, bias, offsets});
}

}  // namespace spillway::ops
