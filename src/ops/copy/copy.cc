#include "ops/copy/copy.h"

#include "backend/kernel.h"
#include "ops/cast/cast.h"
#include "ops/check.h"

namespace spillway::ops {

void copy_cpu(const KernelArgs& args);
void copy_cuda(const KernelArgs& args);

namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) { return {*inputs[0]}; }

void vjp(VjpContext& context) {
  if (context.wants(0)) add_cotangent(context, 0, context.cotangent(0));
}

const OpDef kCopy{.name = "copy",
                  .infer = infer,
                  .vjp = vjp,
                  .cost = memory_cost,
                  .cpu = copy_cpu,
                  .cuda = SPILLWAY_CUDA_KERNEL(copy_cuda)};

}  // namespace

ValueId copy(Builder& builder, ValueId x) { return builder.append_one(kCopy, {x}); }

}  // namespace spillway::ops
