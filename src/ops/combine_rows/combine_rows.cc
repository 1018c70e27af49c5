#include "ops/combine_rows/combine_rows.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/combine_rows/operands.h"
#include "ops/gather_rows/gather_rows.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void combine_rows_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void combine_rows_cuda(const KernelArgs& args);

namespace combine_rows_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  constexpr std::string_view kName = "combine_rows";
  const ValueType &rows = *inputs[kRows], &order = *inputs[kOrder];
  expect_pairs(kName, "order", order, rows);
  expect_same(kName, "inverse", *inputs[kInverse], order);
  expect_divides(kName, "rows of a token", order.shape[1], rows.shape[1]);
  const ValueType out{rows.dtype, {rows.shape[0], rows.shape[1] / order.shape[1]}, rows.axis};
  if (inputs[kAddend] != nullptr) expect_same(kName, "addend", *inputs[kAddend], out);
  return {out};
}

void vjp(VjpContext& context) {
  const ValueId dy = context.cotangent(0);
  const SortedPairs pairs{.order = context.input(kOrder), .inverse = context.input(kInverse)};
  if (context.wants(kRows)) context.add(kRows, gather_rows(context.builder(), dy, pairs));
  if (context.wants(kAddend)) add_cotangent(context, kAddend, dy);
}

const OpDef kCombineRows{.name = "combine_rows",
                         .infer = infer,
                         .vjp = vjp,
                         .cost = memory_cost,
                         .in_place = {{0, kAddend}},
                         .cpu = combine_rows_cpu,
                         .cuda = combine_rows_cuda};

}  // namespace
}  // namespace combine_rows_op

ValueId combine_rows(Builder& builder, ValueId rows, const SortedPairs& pairs, ValueId addend) {
  return builder.append_one(combine_rows_op::kCombineRows, {rows, pairs.order, pairs.inverse, addend});
}

}  // namespace spillway::ops
