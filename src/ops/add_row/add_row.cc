#include "ops/add_row/add_row.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"
#include "ops/sum_rows/sum_rows.h"

namespace spillway::ops {

void add_row_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void add_row_cuda(const KernelArgs& args);

namespace add_row_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType &x = *inputs[0], &row = *inputs[1];
  expect_real("add_row", "x", x);
  expect_rank("add_row", "x", x, 2);
  expect_real("add_row", "row", row);
  expect_same("add_row", "row", row, {row.dtype, {x.shape[1]}});
  return {x};
}

void vjp(VjpContext& context) {
  if (context.wants(0)) context.add(0, context.cotangent(0));
  if (!context.wants(1)) return;
  const ValueId addend = context.take_addend(1);
  context.add(1, sum_rows(context.builder(), context.cotangent(0), addend, context.gradient_dtype(1)));
}

const OpDef kAddRow{.name = "add_row",
                    .infer = infer,
                    .vjp = vjp,
                    .cost = memory_cost,
                    .in_place = {{0, 0}},
                    .cpu = add_row_cpu,
                    .cuda = add_row_cuda};

}  // namespace
}  // namespace add_row_op

ValueId add_row(Builder& builder, ValueId x, ValueId row) { return builder.append_one(add_row_op::kAddRow, {x, row}); }

}  // namespace spillway::ops
