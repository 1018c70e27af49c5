#include "ops/quantile_mask/quantile_mask.h"

#include "backend/kernel.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void quantile_mask_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void quantile_mask_cuda(const KernelArgs& args);

namespace quantile_mask_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_f32("quantile_mask", "x", *inputs[0]);
  expect_rank("quantile_mask", "x", *inputs[0], 1);
  expect_same("quantile_mask", "mask", *inputs[1], *inputs[0]);
  return {*inputs[0]};
}

const OpDef kQuantileMask{
    .name = "quantile_mask", .infer = infer, .cost = memory_cost, .cpu = quantile_mask_cpu, .cuda = quantile_mask_cuda};

}  // namespace
}  // namespace quantile_mask_op

ValueId quantile_mask(Builder& builder, ValueId x, ValueId mask, double q) {
  return builder.append_one(quantile_mask_op::kQuantileMask, {x, mask}, {{"q", q}});
}

}  // namespace spillway::ops
