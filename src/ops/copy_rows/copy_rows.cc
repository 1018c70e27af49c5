#include "ops/copy_rows/copy_rows.h"

#include "backend/kernel.h"
#include "ops/check.h"
#include "ops/copy_rows/operands.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void copy_rows_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void copy_rows_cuda(const KernelArgs& args);

namespace copy_rows_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType &table = *inputs[kTable], &from = *inputs[kFrom];
  expect_rank("copy_rows", "the table", table, 2);
  expect_same("copy_rows", "the table", table, {table.dtype, table.shape});
  expect_rank("copy_rows", "from", from, 1);
  expect_same("copy_rows", "from", from, {DType::kI32, from.shape, from.axis});
  expect_same("copy_rows", "to", *inputs[kTo], from);
  return {table};
}

// Returns the cost in place, where only these rows move.
Cost cost(TypeList inputs, TypeList, const Attributes&) {
  const ValueType& table = *inputs[kTable];
  const int64_t row_bytes = table.shape[1] * size_of(table.dtype);
  return {.bytes = 2.0 * static_cast<double>(inputs[kFrom]->shape[0] * row_bytes)};
}

const OpDef kCopyRows{.name = "copy_rows",
                      .infer = infer,
                      .cost = cost,
                      .in_place = {{0, kTable}},
                      .cpu = copy_rows_cpu,
                      .cuda = copy_rows_cuda};

}  // namespace
}  // namespace copy_rows_op

ValueId copy_rows(Builder& builder, ValueId table, ValueId from, ValueId to) {
  const ValueId next = builder.append_one(copy_rows_op::kCopyRows, {table, from, to});
  builder.update(table, next);
  return next;
}

}  // namespace spillway::ops
