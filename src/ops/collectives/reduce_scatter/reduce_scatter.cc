#include "ops/collectives/reduce_scatter/reduce_scatter.h"

#include "base/sizes.h"
#include "dist/collective.h"
#include "ops/check.h"
#include "ops/collectives/part.h"
#include "ops/memory.h"

namespace spillway::ops {
namespace reduce_scatter_op {
namespace {

constexpr std::string_view kName = "reduce_scatter";
enum Input : int8_t { kWhole, kPart };

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType &whole = *inputs[kWhole], &part = *inputs[kPart];
  expect_same(kName, "whole", whole, {DType::kF32, whole.shape});
  expect_same(kName, "part", part, {DType::kF32, {cut_rows(attributes, whole.shape).cut.part_elems}});
  return {part};
}

// Counts the rows, and the part as read and written.
Cost cost(TypeList inputs, TypeList, const Attributes& attributes) {
  const Cut cut = cut_rows(attributes, inputs[kWhole]->shape).cut;
  const auto others = static_cast<double>(attributes.integer("copies") - 1);  // to which a sum goes in the end
  const auto part = static_cast<double>(inputs[kPart]->bytes());
  return {.bytes = static_cast<double>(cut.elems * size_of(DType::kF32)) + 2 * part,
          .sent_bytes = exchanged_bytes(cut, DType::kF32) + others * part};
}

void run(const CollectiveArgs& args) {
  const TensorView &whole = args.inputs[kWhole], &part = args.inputs[kPart], &sum = args.outputs[0];
  if (sum.data != part.data) args.peers.copy(sum.as<std::byte>(), part.as<std::byte>(), part.bytes());
  const auto [rows, cut] = cut_rows(args.attributes, whole.shape);
  args.peers.fold(span_of(whole.as<const float>() + rows.begin, cut.elems), span_of(sum.as<float>(), sum.elems()), cut,
                  args.contributors);
}

const OpDef kReduceScatter{
    .name = kName, .infer = infer, .cost = cost, .in_place = {{0, kPart}}, .collective = run, .held = Held::kPart};

}  // namespace
}  // namespace reduce_scatter_op

ValueId reduce_scatter(Builder& builder, ValueId whole, ValueId part, const RowSlice& rows, int ranks, int copies,
                       AxisId tokens) {
  Attributes attributes = attributes_of(rows, ranks);
  attributes.add("copies", int64_t{copies});
  if (tokens != kNoAxis) attributes.add(kAxisAttribute, static_cast<int64_t>(tokens));
  return builder.append_one(reduce_scatter_op::kReduceScatter, {whole, part}, std::move(attributes));
}

ValueId reduce_scatter(Builder& builder, ValueId whole, ValueId part, int ranks) {
  return reduce_scatter(builder, whole, part, {0, builder.type(whole).shape[0]}, ranks);
}

}  // namespace spillway::ops
