#include "ops/dropout/dropout.h"

#include <utility>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/dropout/operands.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void dropout_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void dropout_cuda(const KernelArgs& args);

namespace dropout_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const double p = attributes.real("p");
  if (!(p >= 0 && p < 1)) throw input_error("dropout", "expected a probability in [0, 1), got {}; set another", p);
  expect_real("dropout", "x", *inputs[kX]);
  expect_scalar("dropout", "seed", *inputs[kSeed], DType::kI64);
  if (inputs.size() > kOffsets)
    expect_same("dropout", "offsets", *inputs[kOffsets], {DType::kI32, {inputs[kOffsets]->shape.elems()}});
  return {*inputs[kX]};
}

// Applies the same mask to the cotangent.
void vjp(VjpContext& context);

const OpDef kDropout{.name = "dropout",
                     .infer = infer,
                     .vjp = vjp,
                     .cost = memory_cost,
                     .in_place = {{0, kX}},
                     .cpu = dropout_cpu,
                     .cuda = dropout_cuda};

void vjp(VjpContext& context) {
  if (!context.wants(kX)) return;
  std::vector<ValueId> inputs = {context.cotangent(0), context.input(kSeed)};
  if (context.inputs() > kOffsets) inputs.push_back(context.input(kOffsets));
  context.add(kX, context.builder().append_one(kDropout, std::move(inputs), context.attributes()));
}

}  // namespace
}  // namespace dropout_op

ValueId dropout(Builder& builder, ValueId x, ValueId seed, double p, int64_t stream, const DropoutPlace& place) {
  std::vector<ValueId> inputs = {x, seed};
  if (place.offsets != kNone) inputs.push_back(place.offsets);
  Attributes attributes{{"p", p}, {"stream", stream}};
  if (place.tile > 0) attributes.add("tile", place.tile);
  return builder.append_one(dropout_op::kDropout, std::move(inputs), std::move(attributes));
}

}  // namespace spillway::ops
