#include "ops/activation/activation.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/activation/kinds.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void activation_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void activation_cuda(const KernelArgs& args);
void activation_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void activation_grad_cuda(const KernelArgs& args);

namespace activation_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_real("activation", "x", *inputs[0]);
  return {*inputs[0]};
}

// Takes inputs x and dy; the output is dx.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes&) {
  expect_real("activation_grad", "x", *inputs[0]);
  expect_same("activation_grad", "dy", *inputs[1], *inputs[0]);
  return {*inputs[0]};
}

const OpDef kActivationGrad{.name = "activation_grad",
                            .infer = infer_grad,
                            .cost = memory_cost,
                            .in_place = {{0, 1}, {0, 0}},
                            .cpu = activation_grad_cpu,
                            .cuda = activation_grad_cuda};

void vjp(VjpContext& context) {
  if (!context.wants(0)) return;
  context.add(
      0, context.builder().append_one(kActivationGrad, {context.input(0), context.cotangent(0)}, context.attributes()));
}

const OpDef kActivation{.name = "activation",
                        .infer = infer,
                        .vjp = vjp,
                        .cost = memory_cost,
                        .in_place = {{0, 0}},
                        .cpu = activation_cpu,
                        .cuda = activation_cuda};

ValueId append(Builder& builder, ValueId x, ActivationKind kind) {
  return builder.append_one(kActivation, {x}, {{"kind", static_cast<int64_t>(kind)}});
}

}  // namespace
}  // namespace activation_op

ValueId silu(Builder& builder, ValueId x) { return activation_op::append(builder, x, ActivationKind::kSilu); }
ValueId gelu(Builder& builder, ValueId x) { return activation_op::append(builder, x, ActivationKind::kGelu); }
ValueId gelu_tanh(Builder& builder, ValueId x) { return activation_op::append(builder, x, ActivationKind::kGeluTanh); }
ValueId relu_squared(Builder& builder, ValueId x) {
  return activation_op::append(builder, x, ActivationKind::kReluSquared);
}

}  // namespace spillway::ops
