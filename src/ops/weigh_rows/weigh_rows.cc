#include "ops/weigh_rows/weigh_rows.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"
#include "ops/weigh_rows/operands.h"

namespace spillway::ops {

void weigh_rows_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void weigh_rows_cuda(const KernelArgs& args);
void row_products_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void row_products_cuda(const KernelArgs& args);

namespace weigh_rows_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  constexpr std::string_view kName = "weigh_rows";
  const ValueType &rows = *inputs[kRows], &weights = *inputs[kWeights];
  expect_real(kName, "rows", rows);
  expect_rank(kName, "rows", rows, 2);
  expect_rank(kName, "weights", weights, 2);
  expect_same(kName, "weights", weights, {DType::kF32, {rows.shape[0], weights.shape[1]}, rows.axis});
  expect_divides(kName, "rows of a token", weights.shape[1], rows.shape[1]);
  for (const Input input : {kOrder, kInverse}) {
    if (inputs[input] != nullptr)
      expect_same(kName, "places", *inputs[input], {DType::kI32, weights.shape, weights.axis});
  }
  return {rows};
}

// Returns the products of rows with those of the gradient, f32 [T, "pairs"].
std::vector<ValueType> infer_products(TypeList inputs, const Attributes& attributes) {
  const ValueType& rows = *inputs[kRows];
  expect_same("row_products", "dy", *inputs[kDy], rows);
  return {{DType::kF32, {rows.shape[0], attributes.integer("pairs")}, rows.axis}};
}

const OpDef kRowProducts{.name = "row_products",
                         .infer = infer_products,
                         .cost = memory_cost,
                         .cpu = row_products_cpu,
                         .cuda = row_products_cuda};

void vjp(VjpContext& context) {
  Builder& builder = context.builder();
  const ValueId dy = context.cotangent(0), weights = context.input(kWeights);
  const SortedPairs pairs{.order = context.input(kOrder), .inverse = context.input(kInverse)};
  if (context.wants(kWeights)) {
    context.add(kWeights, builder.append_one(kRowProducts, {context.input(kRows), dy, pairs.inverse},
                                             {{"pairs", builder.type(weights).shape[1]}}));
  }
  if (context.wants(kRows)) context.add(kRows, weigh_rows(builder, dy, weights, pairs));
}

const OpDef kWeighRows{.name = "weigh_rows",
                       .infer = infer,
                       .vjp = vjp,
                       .cost = memory_cost,
                       .in_place = {{0, kRows}},
                       .cpu = weigh_rows_cpu,
                       .cuda = weigh_rows_cuda};

}  // namespace
}  // namespace weigh_rows_op

ValueId weigh_rows(Builder& builder, ValueId rows, ValueId weights, const SortedPairs& pairs) {
  return builder.append_one(weigh_rows_op::kWeighRows, {rows, weights, pairs.order, pairs.inverse});
}

}  // namespace spillway::ops
