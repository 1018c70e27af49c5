#include "ops/gather_rows/gather_rows.h"

#include "backend/kernel.h"
#include "ops/check.h"

namespace spillway::ops {

void gather_rows_cpu(const KernelArgs& args);
void gather_rows_cuda(const KernelArgs& args);

namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  const ValueType &x = *inputs[0], &index = *inputs[1];
  expect_rank("gather_rows", "x", x, 2);
  expect_rank("gather_rows", "index", index, 1);
  expect_same("gather_rows", "index", index, {DType::kI32, index.shape});
  return {{x.dtype, {index.shape[0], x.shape[1]}}};
}

Cost cost(TypeList, TypeList outputs, const Attributes&) {
  return {.bytes = 2.0 * static_cast<double>(outputs[0]->bytes())};
}

const OpDef kGatherRows{.name = "gather_rows",
                        .infer = infer,
                        .cost = cost,
                        .cpu = gather_rows_cpu,
                        .cuda = SPILLWAY_CUDA_KERNEL(gather_rows_cuda)};

}  // namespace

ValueId gather_rows(Builder& builder, ValueId x, ValueId index) { return builder.append_one(kGatherRows, {x, index}); }

}  // namespace spillway::ops
