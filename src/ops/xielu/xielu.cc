#include "ops/xielu/xielu.h"

#include <vector>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/column_sums.h"
#include "ops/optional_kernel.h"
#include "ops/xielu/operands.h"

namespace spillway::ops {

void xielu_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void xielu_cuda(const KernelArgs& args);
void xielu_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void xielu_grad_cuda(const KernelArgs& args);

namespace xielu_op {
namespace {

void expect_operands(std::string_view op, TypeList inputs) {
  const ValueType &x = *inputs[kX], &alpha_p = *inputs[kAlphaP];
  expect_real(op, "x", x);
  expect_rank(op, "x", x, 2);
  expect_real(op, "alpha_p", alpha_p);
  expect_same(op, "alpha_p", alpha_p, {alpha_p.dtype, {1}});
  expect_same(op, "alpha_n", *inputs[kAlphaN], alpha_p);
  expect_same(op, "beta", *inputs[kBeta], {DType::kF32, {1}});
  expect_same(op, "eps", *inputs[kEps], {DType::kF32, {1}});
}

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_operands("xielu", inputs);
  return {*inputs[kX]};
}

// Returns outputs dx and, if "wants_alphas" is set, dalpha_p and dalpha_n, of the dtypes in the attributes.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "xielu_grad";
  expect_operands(kName, inputs);
  expect_same(kName, "dy", *inputs[kDy], *inputs[kX]);
  std::vector<ValueType> outputs = {*inputs[kX]};
  if (attributes.integer("wants_alphas") == 0) return outputs;
  for (const auto& [dtype, addend] :
       {std::pair("alpha_p_dtype", int{kAlphaPAddend}), {"alpha_n_dtype", int{kAlphaNAddend}}}) {
    const ValueType gradient{static_cast<DType>(attributes.integer(dtype)), {1}};
    expect_real(kName, "the gradient", gradient);
    if (inputs[addend] != nullptr) expect_same(kName, "an addend", *inputs[addend], gradient);
    outputs.push_back(gradient);
  }
  return outputs;
}

// Returns the bytes of two sums in f64 for each block of rows.
int64_t grad_workspace_bytes(TypeList, TypeList outputs, const Attributes&, int) {
  return outputs.size() > 1 ? 2 * kMaxRowBlocks * int64_t{sizeof(double)} : 0;
}

// Returns the bytes of two sums in f32 for each row.
int64_t grad_cuda_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes&) {
  return outputs.size() > 1 ? 2 * inputs[kX]->shape[0] * int64_t{sizeof(float)} : 0;
}

const OpDef kXieluGrad{.name = "xielu_grad",
                       .infer = infer_grad,
                       .cost = memory_cost,
                       .workspace_bytes = grad_workspace_bytes,
                       .cuda_workspace_bytes = grad_cuda_workspace_bytes,
                       .in_place = {{0, kDy}, {0, kX}, {kDAlphaP, kAlphaPAddend}, {kDAlphaN, kAlphaNAddend}},
                       .cpu = xielu_grad_cpu,
                       .cuda = xielu_grad_cuda};

void vjp(VjpContext& context) {
  const bool wants_p = context.wants(kAlphaP), wants_n = context.wants(kAlphaN);
  if (!context.wants(kX) && !wants_p && !wants_n) return;
  const auto dtype_of = [&](Input alpha) {
    return static_cast<int64_t>(context.wants(alpha) ? context.gradient_dtype(alpha) : DType::kF32);
  };
  Attributes attributes{{"wants_alphas", int64_t{wants_p || wants_n}}};
  if (wants_p || wants_n) {
    attributes.add("alpha_p_dtype", dtype_of(kAlphaP));
    attributes.add("alpha_n_dtype", dtype_of(kAlphaN));
  }
  const ValueId p_addend = wants_p ? context.take_addend(kAlphaP) : kNone;
  const ValueId n_addend = wants_n ? context.take_addend(kAlphaN) : kNone;
  const std::vector<ValueId> gradients =
      context.builder().append(kXieluGrad,
                               {context.input(kX), context.input(kAlphaP), context.input(kAlphaN), context.input(kBeta),
                                context.input(kEps), context.cotangent(0), p_addend, n_addend},
                               std::move(attributes));
  if (context.wants(kX)) context.add(kX, gradients[0]);
  if (wants_p) context.add(kAlphaP, gradients[kDAlphaP]);
  if (wants_n) context.add(kAlphaN, gradients[kDAlphaN]);
}

const OpDef kXielu{.name = "xielu",
                   .infer = infer,
                   .vjp = vjp,
                   .cost = memory_cost,
                   .in_place = {{0, kX}},
                   .cpu = xielu_cpu,
                   .cuda = xielu_cuda};

}  // namespace
}  // namespace xielu_op

ValueId xielu(Builder& builder, ValueId x, const XieluNumbers& numbers) {
  return builder.append_one(xielu_op::kXielu, {x, numbers.alpha_p, numbers.alpha_n, numbers.beta, numbers.eps}, {});
}

}  // namespace spillway::ops
