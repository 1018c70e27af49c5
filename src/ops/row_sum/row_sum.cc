#include "ops/row_sum/row_sum.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void row_sum_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void row_sum_cuda(const KernelArgs& args);
void row_sum_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void row_sum_grad_cuda(const KernelArgs& args);

namespace row_sum_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_f32("row_sum", "x", *inputs[0]);
  expect_rank("row_sum", "x", *inputs[0], 1);
  return {{DType::kF32, {1}}};
}

// Takes input dy; the output has x's type.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  expect_scalar("row_sum_grad", "dy", *inputs[0], DType::kF32);
  return {{DType::kF32, {attributes.integer("rows")}, static_cast<AxisId>(attributes.integer(kAxisAttribute))}};
}

const OpDef kRowSumGrad{.name = "row_sum_grad",
                        .infer = infer_grad,
                        .cost = memory_cost,
                        .cpu = row_sum_grad_cpu,
                        .cuda = row_sum_grad_cuda};

void vjp(VjpContext& context) {
  const ValueType& x = context.input_type(0);
  const Attributes attributes{{"mean", context.attributes().integer("mean")},
                              {"rows", x.shape[0]},
                              {kAxisAttribute, static_cast<int64_t>(x.axis)}};
  context.add(0, context.builder().append_one(kRowSumGrad, {context.cotangent(0)}, attributes));
}

const OpDef kRowSum{
    .name = "row_sum", .infer = infer, .vjp = vjp, .cost = memory_cost, .cpu = row_sum_cpu, .cuda = row_sum_cuda};

}  // namespace
}  // namespace row_sum_op

ValueId row_sum(Builder& builder, ValueId x) {
  return builder.append_one(row_sum_op::kRowSum, {x}, {{"mean", int64_t{0}}});
}
ValueId row_mean(Builder& builder, ValueId x) {
  return builder.append_one(row_sum_op::kRowSum, {x}, {{"mean", int64_t{1}}});
}

}  // namespace spillway::ops
