#include "ops/deal_columns/deal_columns.h"

#include "backend/kernel.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/deal_columns/places.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void deal_columns_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void deal_columns_cuda(const KernelArgs& args);
void collect_columns_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void collect_columns_cuda(const KernelArgs& args);

namespace deal_columns_op {
namespace {

AxisId axis_of(const Attributes& attributes) { return static_cast<AxisId>(attributes.integer(kAxisAttribute)); }

Attributes attributes_of(const ColumnDeal& deal, AxisId axis) {
  return {{"ranks", deal.ranks},
          {"blocks", deal.blocks},
          {"spread", deal.spread},
          {kAxisAttribute, static_cast<int64_t>(axis)}};
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "deal_columns";
  const ValueType& x = *inputs[0];
  expect_real(kName, "x", x);
  expect_rank(kName, "x", x, 2);
  const ColumnDeal deal = deal_of(attributes);
  expect_divides(kName, "blocks", deal.blocks, x.shape[1]);
  return {{x.dtype, {deal.ranks * x.shape[0], deal.of_piece() * (x.shape[1] / deal.blocks)}, axis_of(attributes)}};
}

std::vector<ValueType> infer_collected(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "collect_columns";
  const ValueType& pieces = *inputs[0];
  expect_real(kName, "pieces", pieces);
  expect_rank(kName, "pieces", pieces, 2);
  const ColumnDeal deal = deal_of(attributes);
  expect_divides(kName, "ranks", deal.ranks, pieces.shape[0]);
  expect_divides(kName, "blocks of a piece", deal.of_piece(), pieces.shape[1]);
  const int64_t block = pieces.shape[1] / deal.of_piece();
  return {{pieces.dtype, {pieces.shape[0] / deal.ranks, deal.blocks * block}, axis_of(attributes)}};
}

void vjp(VjpContext& context);
void vjp_of_collected(VjpContext& context);

const OpDef kDealColumns{.name = "deal_columns",
                         .infer = infer,
                         .vjp = vjp,
                         .cost = memory_cost,
                         .cpu = deal_columns_cpu,
                         .cuda = deal_columns_cuda};

const OpDef kCollectColumns{.name = "collect_columns",
                            .infer = infer_collected,
                            .vjp = vjp_of_collected,
                            .cost = memory_cost,
                            .cpu = collect_columns_cpu,
                            .cuda = collect_columns_cuda};

// Adds the gradient of an operation that is the transpose of `def`.
void add_transposed(VjpContext& context, const OpDef& def) {
  Attributes attributes = attributes_of(deal_of(context.attributes()), context.input_type(0).axis);
  add_cotangent(context, 0, context.builder().append_one(def, {context.cotangent(0)}, std::move(attributes)));
}
void vjp(VjpContext& context) { add_transposed(context, kCollectColumns); }
void vjp_of_collected(VjpContext& context) { add_transposed(context, kDealColumns); }

}  // namespace
}  // namespace deal_columns_op

ValueId deal_columns(Builder& builder, ValueId x, const ColumnDeal& deal, AxisId axis) {
  return builder.append_one(deal_columns_op::kDealColumns, {x}, deal_columns_op::attributes_of(deal, axis));
}

ValueId collect_columns(Builder& builder, ValueId pieces, const ColumnDeal& deal, AxisId axis) {
  return builder.append_one(deal_columns_op::kCollectColumns, {pieces}, deal_columns_op::attributes_of(deal, axis));
}

}  // namespace spillway::ops
