#include "ops/gather_rows/gather_rows.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/combine_rows/combine_rows.h"
#include "ops/gather_rows/operands.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void gather_rows_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void gather_rows_cuda(const KernelArgs& args);

namespace gather_rows_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType &x = *inputs[kX], &order = *inputs[kOrder];
  expect_pairs("gather_rows", "order", order, x);
  expect_same("gather_rows", "inverse", *inputs[kInverse], order);
  return {{x.dtype, {x.shape[0], order.shape[1] * x.shape[1]}, x.axis}};
}

void vjp(VjpContext& context) {
  if (!context.wants(kX)) return;
  const SortedPairs pairs{.order = context.input(kOrder), .inverse = context.input(kInverse)};
  const ValueId addend = context.take_addend(kX);
  context.add(kX, combine_rows(context.builder(), context.cotangent(0), pairs, addend));
}

const OpDef kGatherRows{.name = "gather_rows",
                        .infer = infer,
                        .vjp = vjp,
                        .cost = memory_cost,
                        .cpu = gather_rows_cpu,
                        .cuda = gather_rows_cuda};

}  // namespace
}  // namespace gather_rows_op

ValueId gather_rows(Builder& builder, ValueId x, const SortedPairs& pairs) {
  return builder.append_one(gather_rows_op::kGatherRows, {x, pairs.order, pairs.inverse});
}

}  // namespace spillway::ops
