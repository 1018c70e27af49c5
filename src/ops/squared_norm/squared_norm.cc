#include "ops/squared_norm/squared_norm.h"

#include "backend/kernel.h"
#include "base/math.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"
#include "ops/squared_norm/order.h"

namespace spillway::ops {

void squared_norm_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void squared_norm_cuda(const KernelArgs& args);

namespace squared_norm_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_real("squared_norm", "x", *inputs[0]);
  return {{DType::kF32, {1}}};
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes&, int) {
  return div_ceil(inputs[0]->shape.elems(), kNormBlockElems) * static_cast<int64_t>(sizeof(float));
}

const OpDef kSquaredNorm{.name = "squared_norm",
                         .infer = infer,
                         .cost = memory_cost,
                         .workspace_bytes = workspace_bytes,
                         .cpu = squared_norm_cpu,
                         .cuda = squared_norm_cuda};

}  // namespace
}  // namespace squared_norm_op

ValueId squared_norm(Builder& builder, ValueId x) { return builder.append_one(squared_norm_op::kSquaredNorm, {x}); }

}  // namespace spillway::ops
