#include "ops/copy/copy.h"

#include "backend/kernel.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void copy_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void copy_cuda(const KernelArgs& args);

namespace copy_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) { return {*inputs[0]}; }

void vjp(VjpContext& context) {
  if (context.wants(0)) add_cotangent(context, 0, context.cotangent(0));
}

const OpDef kCopy{.name = "copy", .infer = infer, .vjp = vjp, .cost = memory_cost, .cpu = copy_cpu, .cuda = copy_cuda};

}  // namespace
}  // namespace copy_op

ValueId copy(Builder& builder, ValueId x) { return builder.append_one(copy_op::kCopy, {x}); }

}  // namespace spillway::ops
