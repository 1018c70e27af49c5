#include "ops/scale_columns/scale_columns.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/column_sums.h"
#include "ops/optional_kernel.h"
#include "ops/scale_columns/operands.h"
#include "ops/sum_rows/sum_rows.h"

namespace spillway::ops {

void scale_columns_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void scale_columns_cuda(const KernelArgs& args);
void scale_columns_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void scale_columns_grad_cuda(const KernelArgs& args);

namespace scale_columns_op {
namespace {

void expect_operands(std::string_view op, const ValueType& x, const ValueType* factor) {
  expect_real(op, "x", x);
  expect_rank(op, "x", x, 2);
  if (factor == nullptr) return;
  const bool has_all = factor->shape.elems() == x.shape[1];  // of whatever rank
  expect_same(op, "factor", *factor, {DType::kF32, has_all ? factor->shape : Shape{x.shape[1]}});
}

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  constexpr std::string_view kName = "scale_columns";
  const ValueType& x = *inputs[kX];
  expect_operands(kName, x, inputs[kFactor]);
  if (const ValueType* bias = inputs[kBias]) {
    expect_real(kName, "bias", *bias);
    expect_same(kName, "bias", *bias, {bias->dtype, {x.shape[1]}});
  }
  if (inputs[kAddend] != nullptr) expect_same(kName, "addend", *inputs[kAddend], x);
  return {x};
}

// Returns outputs dx and, if "wants_factor" is set, dfactor.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "scale_columns_grad";
  const ValueType& x = *inputs[kX];
  expect_operands(kName, x, inputs[kFactor]);
  expect_same(kName, "dy", *inputs[kDy], x);
  std::vector<ValueType> outputs = {x};
  if (attributes.integer("wants_factor") == 0) return outputs;
  const ValueType& factor = *inputs[kFactor];
  if (inputs[kFactorAddend] != nullptr) expect_same(kName, "the addend of dfactor", *inputs[kFactorAddend], factor);
  outputs.push_back(factor);
  return outputs;
}

int64_t grad_workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int) {
  return attributes.integer("wants_factor") != 0 ? column_sums_bytes(inputs[kX]->shape[1]) : 0;
}

const OpDef kScaleColumnsGrad{.name = "scale_columns_grad",
                              .infer = infer_grad,
                              .cost = memory_cost,
                              .workspace_bytes = grad_workspace_bytes,
                              .in_place = {{0, kDy}, {0, kX}, {1, kFactorAddend}},
                              .cpu = scale_columns_grad_cpu,
                              .cuda = scale_columns_grad_cuda};

void vjp(VjpContext& context) {
  Builder& builder = context.builder();
  const ValueId dy = context.cotangent(0);
  const bool wants_x = context.wants(kX), wants_factor = context.wants(kFactor);
  if (wants_x || wants_factor) {
    const ValueId addend = wants_factor ? context.take_addend(kFactor) : kNone;
    const std::vector<ValueId> gradients =
        builder.append(kScaleColumnsGrad, {context.input(kX), context.input(kFactor), dy, addend},
                       {{"shift", context.attributes().real("shift")}, {"wants_factor", int64_t{wants_factor}}});
    if (wants_x) context.add(kX, gradients[0]);
    if (wants_factor) context.add(kFactor, gradients[1]);
  }
  if (context.wants(kBias)) {
    const ValueId addend = context.take_addend(kBias);
    context.add(kBias, sum_rows(builder, dy, addend, context.gradient_dtype(kBias)));
  }
  if (context.wants(kAddend)) context.add(kAddend, dy);
}

const OpDef kScaleColumns{.name = "scale_columns",
                          .infer = infer,
                          .vjp = vjp,
                          .cost = memory_cost,
                          .in_place = {{0, kX}, {0, kAddend}},
                          .cpu = scale_columns_cpu,
                          .cuda = scale_columns_cuda};

}  // namespace
}  // namespace scale_columns_op

ValueId scale_columns(Builder& builder, ValueId x, ValueId factor, const ScaleColumnsOptions& options) {
  return builder.append_one(scale_columns_op::kScaleColumns, {x, factor, options.bias, options.addend},
                            {{"shift", options.shift}});
}

}  // namespace spillway::ops
