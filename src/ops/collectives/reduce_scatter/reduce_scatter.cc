#include "ops/collectives/reduce_scatter/reduce_scatter.h"

#include <algorithm>

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

// Returns the most elements that a rank sends where groups of `together` ranks add up their contributions first: the
// parts that others of its group add up, and the sums of those that it adds up, to all that have them but itself.
int64_t elems_sent_by_groups(const Cut& cut, int64_t copies, int64_t together) {
  int64_t most = 0;
  for (int64_t member = 0; member < together; ++member) {
    int64_t added = 0, least = cut.ranks > member ? cut.part_elems : 0;
    for (int64_t part = member; part < cut.ranks; part += together) {
      added += cut.count(static_cast<int>(part));
      least = std::min(least, cut.count(static_cast<int>(part)));
    }
    // A rank has one of the parts that it adds up wherever one of the two sizes divides the other.
    const bool has_one = cut.ranks % together == 0 || together % cut.ranks == 0;
    most = std::max(most, cut.elems - added + copies * added - (has_one ? least : 0));
  }
  return most;
}

// Counts the rows, and the part as read and written.
Cost cost(TypeList inputs, TypeList, const Attributes& attributes) {
  const Cut cut = cut_rows(attributes, inputs[kWhole]->shape).cut;
  const int64_t copies = attributes.integer("copies"), together = attributes.integer("together");
  const auto part = static_cast<double>(inputs[kPart]->bytes());
  Cost result{.bytes = static_cast<double>(cut.elems * size_of(DType::kF32)) + 2 * part};
  result.sent_bytes = together > 1
                          ? static_cast<double>(elems_sent_by_groups(cut, copies, together) * size_of(DType::kF32))
                          : exchanged_bytes(cut, DType::kF32) + static_cast<double>(copies - 1) * part;
  return result;
}

void run(const CollectiveArgs& args) {
  const TensorView &whole = args.inputs[kWhole], &part = args.inputs[kPart], &sum = args.outputs[0];
  if (sum.data != part.data) args.peers.copy(sum.as<std::byte>(), part.as<std::byte>(), part.bytes());
  const auto [rows, cut] = cut_rows(args.attributes, whole.shape);
  args.peers.fold(
      span_of(whole.as<const float>() + rows.begin, cut.elems), span_of(sum.as<float>(), sum.elems()), cut,
      {.contributors = args.contributors, .together = static_cast<int>(args.attributes.integer("together"))});
}

const OpDef kReduceScatter{
    .name = kName, .infer = infer, .cost = cost, .in_place = {{0, kPart}}, .collective = run, .held = Held::kPart};

}  // namespace
}  // namespace reduce_scatter_op

ValueId reduce_scatter(Builder& builder, ValueId whole, ValueId part, const RowSlice& rows, const SumRanks& over,
                       AxisId tokens) {
  Attributes attributes = attributes_of(rows, over.ranks);
  attributes.add("copies", int64_t{over.copies});
  attributes.add("together", int64_t{over.together});
  if (tokens != kNoAxis) attributes.add(kAxisAttribute, static_cast<int64_t>(tokens));
  return builder.append_one(reduce_scatter_op::kReduceScatter, {whole, part}, std::move(attributes));
}

ValueId reduce_scatter(Builder& builder, ValueId whole, ValueId part, int ranks) {
  return reduce_scatter(builder, whole, part, {0, builder.type(whole).shape[0]}, {.ranks = ranks});
}

}  // namespace spillway::ops
