#include "ops/sort_rows/sort_rows.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void sort_rows_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void sort_rows_cuda(const KernelArgs& args);
void sort_rows_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void sort_rows_grad_cuda(const KernelArgs& args);

namespace sort_rows_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_f32("sort_rows", "x", *inputs[0]);
  expect_rank("sort_rows", "x", *inputs[0], 1);
  return {*inputs[0]};
}

// Takes inputs x and dy.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes&) {
  expect_same("sort_rows_grad", "dy", *inputs[1], *inputs[0]);
  return {*inputs[0]};
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost cost = memory_cost(inputs, outputs, attributes);
  const auto rows = static_cast<double>(inputs[0]->shape[0]);
  cost.flops = rows * rows;
  return cost;
}

// Uses x again and not kept ranks: numbers that are made up to measure a kernel would be no permutation.
const OpDef kSortRowsGrad{.name = "sort_rows_grad",
                          .infer = infer_grad,
                          .cost = cost,
                          .cpu = sort_rows_grad_cpu,
                          .cuda = sort_rows_grad_cuda};

void vjp(VjpContext& context) {
  context.add(0, context.builder().append_one(kSortRowsGrad, {context.input(0), context.cotangent(0)}));
}

const OpDef kSortRows{
    .name = "sort_rows", .infer = infer, .vjp = vjp, .cost = cost, .cpu = sort_rows_cpu, .cuda = sort_rows_cuda};

}  // namespace
}  // namespace sort_rows_op

ValueId sort_rows(Builder& builder, ValueId x) { return builder.append_one(sort_rows_op::kSortRows, {x}); }

}  // namespace spillway::ops
