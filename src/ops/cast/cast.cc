#include "ops/cast/cast.h"

#include "backend/kernel.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void cast_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void cast_cuda(const KernelArgs& args);

namespace cast_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  expect_real("cast", "x", *inputs[0]);
  ValueType out = *inputs[0];
  out.dtype = static_cast<DType>(attributes.integer("dtype"));
  expect_real("cast", "the result", out);
  return {out};
}

void vjp(VjpContext& context) {
  if (context.wants(0)) add_cotangent(context, 0, context.cotangent(0));
}

const OpDef kCast{.name = "cast", .infer = infer, .vjp = vjp, .cost = memory_cost, .cpu = cast_cpu, .cuda = cast_cuda};

}  // namespace
}  // namespace cast_op

ValueId cast(Builder& builder, ValueId x, DType dtype) {
  if (builder.type(x).dtype == dtype) return x;
  return builder.append_one(cast_op::kCast, {x}, {{"dtype", static_cast<int64_t>(dtype)}});
}

void add_cotangent(VjpContext& context, int i, ValueId cotangent) {
  context.add(i, cast(context.builder(), cotangent, context.gradient_dtype(i)));
}

}  // namespace spillway::ops
