#include "ops/rms_norm/rms_norm.h"

#include <utility>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/column_sums.h"
#include "ops/optional_kernel.h"
#include "ops/real_or.h"
#include "ops/rms_norm/grad_blocks.h"
#include "ops/rms_norm/operands.h"

namespace spillway::ops {

void rms_norm_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void rms_norm_cuda(const KernelArgs& args);
void rms_norm_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void rms_norm_grad_cuda(const KernelArgs& args);

namespace rms_norm_op {
namespace {

void expect_operands(std::string_view op, const ValueType& x, const ValueType& w) {
  expect_real(op, "x", x);
  expect_rank(op, "x", x, 2);
  expect_real(op, "w", w);
  expect_rank(op, "w", w, 1);
  expect_divides(op, "a size of w", w.shape[0], x.shape[1]);
}

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType &x = *inputs[kX], &w = *inputs[kWeight];
  expect_operands("rms_norm", x, w);
  return {x, {DType::kF32, {x.shape[0], x.shape[1] / w.shape[0]}, x.axis}};
}

// Returns outputs dx and, if "weight_dtype" is set, dw.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "rms_norm_grad";
  const ValueType &x = *inputs[kX], &w = *inputs[kWeight];
  expect_operands(kName, x, w);
  expect_same(kName, "rstd", *inputs[kRstd], {DType::kF32, {x.shape[0], x.shape[1] / w.shape[0]}, x.axis});
  expect_same(kName, "dy", *inputs[kDy], x);
  if (inputs[kXAddend] != nullptr) expect_same(kName, "the addend of dx", *inputs[kXAddend], x);
  std::vector<ValueType> outputs = {x};
  if (const int64_t dtype = attributes.integer("weight_dtype"); dtype >= 0) {
    outputs.push_back({static_cast<DType>(dtype), w.shape});
    expect_real(kName, "dw", outputs[1]);
    if (inputs[kWeightAddend] != nullptr) expect_same(kName, "the addend of dw", *inputs[kWeightAddend], outputs[1]);
  }
  return outputs;
}

int64_t grad_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes&, int) {
  return outputs.size() > 1 ? column_sums_bytes(inputs[kWeight]->shape[0]) : 0;
}

int64_t grad_cuda_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes&) {
  return outputs.size() > 1 ? grad_blocks_bytes(inputs[kWeight]->shape[0]) : 0;
}

const OpDef kRmsNormGrad{.name = "rms_norm_grad",
                         .infer = infer_grad,
                         .cost = memory_cost,
                         .workspace_bytes = grad_workspace_bytes,
                         .cuda_workspace_bytes = grad_cuda_workspace_bytes,
                         .in_place = {{0, kXAddend}, {0, kDy}, {0, kX}, {1, kWeightAddend}},
                         .cpu = rms_norm_grad_cpu,
                         .cuda = rms_norm_grad_cuda};

void add_weight_shift(Attributes& attributes, double shift) {
  if (shift != 0) attributes.add("weight_shift", shift);
}

void vjp(VjpContext& context) {
  const bool wants_weight = context.wants(kWeight);
  const ValueId x_addend = context.wants(kX) ? context.take_addend(kX) : kNone;
  const ValueId w_addend = wants_weight ? context.take_addend(kWeight) : kNone;
  const int64_t dtype = wants_weight ? static_cast<int64_t>(context.gradient_dtype(kWeight)) : -1;
  Attributes attributes{{"weight_dtype", dtype}};
  add_weight_shift(attributes, real_or(context.attributes(), "weight_shift", 0));
  const std::vector<ValueId> gradients = context.builder().append(
      kRmsNormGrad,
      {context.input(kX), context.input(kWeight), context.output(1), context.cotangent(0), x_addend, w_addend},
      std::move(attributes));
  if (context.wants(kX)) context.add(kX, gradients[0]);
  if (wants_weight) context.add(kWeight, gradients[1]);
}

const OpDef kRmsNorm{.name = "rms_norm",
                     .infer = infer,
                     .vjp = vjp,
                     .cost = memory_cost,
                     .in_place = {{0, kX}},
                     .cpu = rms_norm_cpu,
                     .cuda = rms_norm_cuda};

}  // namespace
}  // namespace rms_norm_op

ValueId rms_norm(Builder& builder, ValueId x, ValueId w, double eps, double weight_shift) {
  Attributes attributes{{"eps", eps}};
  rms_norm_op::add_weight_shift(attributes, weight_shift);
  return builder.append(rms_norm_op::kRmsNorm, {x, w}, std::move(attributes))[0];
}

}  // namespace spillway::ops
