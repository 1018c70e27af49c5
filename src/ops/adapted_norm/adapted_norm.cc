#include "ops/adapted_norm/adapted_norm.h"

#include "backend/kernel.h"
#include "ops/adapted_norm/row_norm.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void adapted_norm_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void adapted_norm_cuda(const KernelArgs& args);

namespace adapted_norm_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  constexpr std::string_view kName = "adapted_norm";
  const ValueType& b = *inputs[kB];
  expect_real(kName, "B", b);
  expect_rank(kName, "B", b, 2);
  expect_same(kName, "squares", *inputs[kSquares], {DType::kF32, {b.shape[0]}});
  expect_same(kName, "overlap", *inputs[kOverlap], {DType::kF32, {b.shape[1], b.shape[0]}});
  return {{DType::kF32, {b.shape[0]}}};
}

const OpDef kAdaptedNorm{.name = "adapted_norm",
                         .infer = infer,
                         .stops_gradients = true,
                         .cost = memory_cost,
                         .in_place = {{0, kSquares}},
                         .cpu = adapted_norm_cpu,
                         .cuda = adapted_norm_cuda};

}  // namespace
}  // namespace adapted_norm_op

ValueId adapted_norm(Builder& builder, ValueId squares, ValueId overlap, ValueId b, double scale) {
  return builder.append_one(adapted_norm_op::kAdaptedNorm, {squares, overlap, b}, {{"scale", scale}});
}

}  // namespace spillway::ops
