#include "ops/clamped_swiglu/clamped_swiglu.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void clamped_swiglu_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void clamped_swiglu_cuda(const KernelArgs& args);
void clamped_swiglu_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void clamped_swiglu_grad_cuda(const KernelArgs& args);

namespace clamped_swiglu_op {
namespace {

constexpr std::string_view kName = "clamped_swiglu";

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType& x = *inputs[0];
  expect_real(kName, "x", x);
  expect_rank(kName, "x", x, 2);
  expect_divides(kName, "a gate and its up", 2, x.shape[1]);
  return {{x.dtype, {x.shape[0], x.shape[1] / 2}, x.axis}};
}

// Returns the gradient of x; the inputs are x and dy.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  expect_same(kName, "dy", *inputs[1], infer(inputs, attributes)[0]);
  return {*inputs[0]};
}

const OpDef kClampedSwigluGrad{.name = "clamped_swiglu_grad",
                               .infer = infer_grad,
                               .cost = memory_cost,
                               .in_place = {{0, 0}},
                               .cpu = clamped_swiglu_grad_cpu,
                               .cuda = clamped_swiglu_grad_cuda};

void vjp(VjpContext& context) {
  if (!context.wants(0)) return;
  context.add(0, context.builder().append_one(kClampedSwigluGrad, {context.input(0), context.cotangent(0)},
                                              context.attributes()));
}

const OpDef kClampedSwiglu{.name = kName,
                           .infer = infer,
                           .vjp = vjp,
                           .cost = memory_cost,
                           .cpu = clamped_swiglu_cpu,
                           .cuda = clamped_swiglu_cuda};

}  // namespace
}  // namespace clamped_swiglu_op

ValueId clamped_swiglu(Builder& builder, ValueId x, const ClampedSwigluOptions& options) {
  return builder.append_one(clamped_swiglu_op::kClampedSwiglu, {x},
                            {{"alpha", options.alpha}, {"limit", options.limit}});
}

}  // namespace spillway::ops
