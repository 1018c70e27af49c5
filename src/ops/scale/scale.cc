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

// The second input is there where the factor is a number of the graph, and counts besides the attribute then.
std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_real("scale", "x", *inputs[0]);
  if (inputs.size() > 1) expect_scalar("scale", "factor", *inputs[1], DType::kF32);
  return {*inputs[0]};
}

void vjp(VjpContext& context) {
  if (!context.wants(0)) return;
  const ValueId dy = context.cotangent(0);
  const double factor = context.attributes().real("factor");
  context.add(0,
              factor == 1 ? scale_by(context.builder(), dy, context.input(1)) : scale(context.builder(), dy, factor));
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

ValueId scale_by(Builder& builder, ValueId x, ValueId factor) {
  return builder.append_one(scale_op::kScale, {x, factor}, {{"factor", 1.0}});
}

}  // namespace spillway::ops
