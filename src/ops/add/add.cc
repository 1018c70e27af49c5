#include "ops/add/add.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void add_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void add_cuda(const KernelArgs& args);

namespace add_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_real("add", "x", *inputs[0]);
  expect_same("add", "y", *inputs[1], *inputs[0]);
  return {*inputs[0]};
}

void vjp(VjpContext& context) {
  for (const int i : {0, 1}) {
    if (context.wants(i)) add_cotangent(context, i, context.cotangent(0));
  }
}

const OpDef kAdd{.name = "add",
                 .infer = infer,
                 .vjp = vjp,
                 .cost = memory_cost,
                 .in_place = {{0, 0}, {0, 1}},
                 .cpu = add_cpu,
                 .cuda = add_cuda};

}  // namespace
}  // namespace add_op

ValueId add(Builder& builder, ValueId x, ValueId y) { return builder.append_one(add_op::kAdd, {x, y}); }

}  // namespace spillway::ops
