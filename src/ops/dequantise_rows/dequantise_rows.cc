#include "ops/dequantise_rows/dequantise_rows.h"

#include "backend/kernel.h"
#include "ops/check.h"

namespace spillway::ops {

void dequantise_rows_cpu(const KernelArgs& args);
void dequantise_rows_cuda(const KernelArgs& args);

namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType &codes = *inputs[0], &scales = *inputs[1];
  expect_rank("dequantise_rows", "codes", codes, 2);
  expect_same("dequantise_rows", "codes", codes, {DType::kI8, codes.shape});
  expect_row_numbers("dequantise_rows", "scales", scales, DType::kF32, codes);
  const ValueType out{static_cast<DType>(attributes.integer("dtype")), codes.shape};
  expect_real("dequantise_rows", "the result", out);
  return {out};
}

const OpDef kDequantiseRows{.name = "dequantise_rows",
                            .infer = infer,
                            .cost = memory_cost,
                            .cpu = dequantise_rows_cpu,
                            .cuda = SPILLWAY_CUDA_KERNEL(dequantise_rows_cuda)};

}  // namespace

ValueId dequantise_rows(Builder& builder, ValueId codes, ValueId scales, DType dtype) {
  return builder.append_one(kDequantiseRows, {codes, scales}, {{"dtype", static_cast<int64_t>(dtype)}});
}

}  // namespace spillway::ops
