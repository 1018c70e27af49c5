#include "ops/collectives/exchange_rows/exchange_rows.h"

#include "base/sizes.h"
#include "dist/collective.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"

namespace spillway::ops {
namespace exchange_rows_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  expect_divides("exchange_rows", "ranks", attributes.integer("ranks"), inputs[0]->shape[0]);
  return {*inputs[0]};
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  const auto ranks = static_cast<double>(attributes.integer("ranks"));
  Cost result = memory_cost(inputs, outputs, attributes);
  result.sent_bytes = static_cast<double>(outputs[0]->bytes()) * (ranks - 1) / ranks;
  return result;
}

void vjp(VjpContext& context);

void run(const CollectiveArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  args.peers.all_to_all(span_of(x.as<const std::byte>(), x.bytes()), span_of(out.as<std::byte>(), out.bytes()),
                        static_cast<int>(args.attributes.integer("ranks")));
}

const OpDef kExchangeRows{.name = "exchange_rows",
                          .infer = infer,
                          .vjp = vjp,
                          .cost = cost,
                          .recompute_cost = RecomputeCost::kProduct,
                          .collective = run,
                          .held = Held::kOwn};

void vjp(VjpContext& context) {
  add_cotangent(context, 0, context.builder().append_one(kExchangeRows, {context.cotangent(0)}, context.attributes()));
}

}  // namespace
}  // namespace exchange_rows_op

ValueId exchange_rows(Builder& builder, ValueId x, int64_t ranks) {
  return builder.append_one(exchange_rows_op::kExchangeRows, {x}, {{"ranks", ranks}});
}

}  // namespace spillway::ops
