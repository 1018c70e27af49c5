#include "ops/split_rows/split_rows.h"

#include <algorithm>
#include <utility>

#include "backend/kernel.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void split_rows_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void split_rows_cuda(const KernelArgs& args);
void join_rows_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void join_rows_cuda(const KernelArgs& args);

namespace split_rows_op {
namespace {

// Describes the outputs of both operations.
Attributes to_attributes(Builder& builder, int64_t count, AxisId axis) {
  return {
      {"count", count}, {"rows", builder.graph().axis(axis).capacity}, {kAxisAttribute, static_cast<int64_t>(axis)}};
}

// Returns x's type with the rows that the attributes name.
ValueType with_rows(const ValueType& x, const Attributes& attributes) {
  return {x.dtype, {attributes.integer("rows"), x.shape[1]}, static_cast<AxisId>(attributes.integer(kAxisAttribute))};
}

void check_room(const ValueType& whole, const ValueType& tile, int64_t count) {
  SPILLWAY_CHECK(count * tile.shape[0] >= whole.shape[0], "{} tiles of {} rows for {}", count, tile.shape[0],
                 whole.shape[0]);
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "split_rows";
  const ValueType& x = *inputs[0];
  expect_real(kName, "x", x);
  expect_rank(kName, "x", x, 2);
  const int64_t count = attributes.integer("count");
  const ValueType tile = with_rows(x, attributes);
  check_room(x, tile, count);
  return std::vector<ValueType>(static_cast<size_t>(count), tile);
}

// Takes the tiles, of which all but one may be absent, which stands for zeros.
std::vector<ValueType> infer_join(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "join_rows";
  const auto there =
      std::find_if(inputs.begin(), inputs.end(), [](const ValueType* input) { return input != nullptr; });
  SPILLWAY_CHECK(there != inputs.end(), "{} of nothing", kName);
  const ValueType& tile = **there;
  expect_real(kName, "a tile", tile);
  expect_rank(kName, "a tile", tile, 2);
  for (const ValueType* input : inputs)
    if (input != nullptr) expect_same(kName, "a tile", *input, tile);
  const ValueType whole = with_rows(tile, attributes);
  check_room(whole, tile, std::ssize(inputs));
  return {whole};
}

void vjp_join(VjpContext& context);

const OpDef kJoinRows{.name = "join_rows",
                      .infer = infer_join,
                      .vjp = vjp_join,
                      .cost = memory_cost,
                      .cpu = join_rows_cpu,
                      .cuda = join_rows_cuda};

void vjp(VjpContext& context) {
  std::vector<ValueId> tiles;
  for (int i = 0; i < context.attributes().integer("count"); ++i) tiles.push_back(context.cotangent(i));
  add_cotangent(context, 0, join_rows(context.builder(), tiles, context.input_type(0).axis));
}

const OpDef kSplitRows{.name = "split_rows",
                       .infer = infer,
                       .vjp = vjp,
                       .cost = memory_cost,
                       .cpu = split_rows_cpu,
                       .cuda = split_rows_cuda};

void vjp_join(VjpContext& context) {
  const RowTiles tiles{context.inputs(), context.input_type(0).axis};
  const std::vector<ValueId> parts = split_rows(context.builder(), context.cotangent(0), tiles);
  for (int i = 0; i < context.inputs(); ++i)
    if (context.wants(i)) add_cotangent(context, i, parts[static_cast<size_t>(i)]);
}

}  // namespace
}  // namespace split_rows_op

std::vector<ValueId> split_rows(Builder& builder, ValueId x, const RowTiles& tiles) {
  return builder.append(split_rows_op::kSplitRows, {x}, split_rows_op::to_attributes(builder, tiles.count, tiles.axis));
}

ValueId join_rows(Builder& builder, const std::vector<ValueId>& tiles, AxisId axis) {
  return builder.append_one(split_rows_op::kJoinRows, tiles,
                            split_rows_op::to_attributes(builder, std::ssize(tiles), axis));
}

}  // namespace spillway::ops
