#include "ops/repeat_columns/repeat_columns.h"

#include "backend/kernel.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void repeat_columns_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void repeat_columns_cuda(const KernelArgs& args);
void sum_repeated_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void sum_repeated_cuda(const KernelArgs& args);

namespace repeat_columns_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType& x = *inputs[0];
  expect_rank("repeat_columns", "x", x, 2);
  expect_real("repeat_columns", "x", x);
  ValueType out = x;
  out.shape.set(1, x.shape[1] * attributes.integer("times"));
  return {out};
}

std::vector<ValueType> infer_sum(TypeList inputs, const Attributes& attributes) {
  ValueType out = *inputs[0];
  expect_rank("sum_repeated", "dy", out, 2);
  out.shape.set(1, out.shape[1] / attributes.integer("times"));
  return {out};
}

// Adds the parts up.
const OpDef kSumRepeated{.name = "sum_repeated",
                         .infer = infer_sum,
                         .cost = memory_cost,
                         .cpu = sum_repeated_cpu,
                         .cuda = sum_repeated_cuda};

void vjp(VjpContext& context) {
  add_cotangent(context, 0,
                context.builder().append_one(kSumRepeated, {context.cotangent(0)},
                                             {{"times", context.attributes().integer("times")}}));
}

const OpDef kRepeatColumns{.name = "repeat_columns",
                           .infer = infer,
                           .vjp = vjp,
                           .cost = memory_cost,
                           .cpu = repeat_columns_cpu,
                           .cuda = repeat_columns_cuda};

}  // namespace
}  // namespace repeat_columns_op

ValueId repeat_columns(Builder& builder, ValueId x, int64_t times) {
  SPILLWAY_CHECK(times >= 1, "columns {} times", times);
  return times == 1 ? x : builder.append_one(repeat_columns_op::kRepeatColumns, {x}, {{"times", times}});
}

}  // namespace spillway::ops
