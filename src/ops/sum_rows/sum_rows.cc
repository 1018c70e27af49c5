#include "ops/sum_rows/sum_rows.h"

#include "backend/kernel.h"
#include "ops/check.h"
#include "ops/column_sums.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void sum_rows_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void sum_rows_cuda(const KernelArgs& args);

namespace sum_rows_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  expect_real("sum_rows", "x", *inputs[0]);
  expect_rank("sum_rows", "x", *inputs[0], 2);
  const ValueType out{static_cast<DType>(attributes.integer("dtype")), {inputs[0]->shape[1]}};
  expect_real("sum_rows", "the sum", out);
  if (inputs[1] != nullptr) expect_same("sum_rows", "the addend", *inputs[1], out);
  return {out};
}

int64_t workspace_bytes(TypeList, TypeList outputs, const Attributes&, int) {
  return column_sums_bytes(outputs[0]->shape[0]);
}

const OpDef kSumRows{.name = "sum_rows",
                     .infer = infer,
                     .cost = memory_cost,
                     .workspace_bytes = workspace_bytes,
                     .in_place = {{0, 1}},
                     .cpu = sum_rows_cpu,
                     .cuda = sum_rows_cuda};

}  // namespace
}  // namespace sum_rows_op

ValueId sum_rows(Builder& builder, ValueId x, ValueId addend, DType dtype) {
  return builder.append_one(sum_rows_op::kSumRows, {x, addend}, {{"dtype", static_cast<int64_t>(dtype)}});
}

}  // namespace spillway::ops
