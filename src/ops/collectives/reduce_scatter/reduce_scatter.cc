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
  expect_same(kName, "part", part, part_type(whole, static_cast<int>(attributes.integer("ranks"))));
  return {part};
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = memory_cost(inputs, outputs, attributes);
  result.sent_bytes = exchanged_bytes(*inputs[kWhole], static_cast<int>(attributes.integer("ranks")));
  return result;
}

void run(const CollectiveArgs& args) {
  const TensorView &whole = args.inputs[kWhole], &part = args.inputs[kPart], &sum = args.outputs[0];
  if (sum.data != part.data) copy_memory(sum.as<std::byte>(), part.as<std::byte>(), part.bytes());
  args.peers.fold(span_of(whole.as<float>(), whole.elems()), span_of(sum.as<float>(), sum.elems()), args.contributors);
}

const OpDef kReduceScatter{
    .name = kName, .infer = infer, .cost = cost, .in_place = {{0, kPart}}, .collective = run, .held = Held::kPart};

}  // namespace
}  // namespace reduce_scatter_op

ValueId reduce_scatter(Builder& builder, ValueId whole, ValueId part, int ranks) {
  return builder.append_one(reduce_scatter_op::kReduceScatter, {whole, part}, {{"ranks", int64_t{ranks}}});
}

}  // namespace spillway::ops
