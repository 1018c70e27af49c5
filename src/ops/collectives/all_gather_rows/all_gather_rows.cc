#include "ops/collectives/all_gather_rows/all_gather_rows.h"

#include "base/sizes.h"
#include "dist/collective.h"
#include "ops/check.h"
#include "ops/collectives/part.h"

namespace spillway::ops {
namespace all_gather_rows_op {
namespace {

constexpr std::string_view kName = "all_gather_rows";
enum Input : int8_t { kPart, kWhole };

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType& whole = *inputs[kWhole];
  expect_same(kName, "part", *inputs[kPart], {whole.dtype, {cut_rows(attributes, whole.shape).cut.part_elems}});
  return {whole};
}

// Counts the part as read and the rows as written.
Cost cost(TypeList inputs, TypeList, const Attributes& attributes) {
  const ValueType& whole = *inputs[kWhole];
  const Cut cut = cut_rows(attributes, whole.shape).cut;
  return {.bytes = static_cast<double>(inputs[kPart]->bytes() + cut.elems * size_of(whole.dtype)),
          .sent_bytes = exchanged_bytes(cut, whole.dtype)};
}

void run(const CollectiveArgs& args) {
  const TensorView &part = args.inputs[kPart], &whole = args.inputs[kWhole], &next = args.outputs[0];
  if (next.data != whole.data) args.peers.copy(next.as<std::byte>(), whole.as<std::byte>(), whole.bytes());
  const auto [rows, cut] = cut_rows(args.attributes, whole.shape);
  const int64_t size = size_of(whole.dtype);
  args.peers.gather(span_of(part.as<const std::byte>(), part.bytes()),
                    span_of(next.as<std::byte>() + rows.begin * size, cut.elems * size), cut, size);
}

const OpDef kAllGatherRows{
    .name = kName, .infer = infer, .cost = cost, .in_place = {{0, kWhole}}, .collective = run, .held = Held::kWhole};

}  // namespace
}  // namespace all_gather_rows_op

ValueId all_gather_rows(Builder& builder, ValueId part, ValueId whole, const RowSlice& rows, int ranks) {
  return builder.append_one(all_gather_rows_op::kAllGatherRows, {part, whole}, attributes_of(rows, ranks));
}

}  // namespace spillway::ops
