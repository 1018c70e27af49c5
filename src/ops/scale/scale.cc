#include "ops/scale/scale.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void scale_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void scale_cuda(const KernelArgs& args);

namespace scale_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_real("scale", "x", *inputs[0]);
  return {*inputs[0]};
}

void vjp(VjpContext& context) {
  if (context.wants(0))
    context.add(0, scale(context.builder(), context.cotangent(0), context.attributes().real("factor")));
}

const OpDef kScale{.name = "scale",
                   .infer = infer,
                   .vjp = vjp,
                   .cost = memory_cost,
                   .in_place = {{0, 0}},
                   .cpu = scale_cpu,
                   .cuda = scale_cuda};

}  // namespace
}  // namespace scale_op

ValueId scale(Builder& builder, ValueId x, double factor) {
  return factor == 1 ? x : builder.append_one(scale_op::kScale, {x}, {{"factor", factor}});
}

}  // namespace spillway::ops
