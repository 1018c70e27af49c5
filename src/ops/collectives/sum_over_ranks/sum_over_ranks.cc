#include "ops/collectives/sum_over_ranks/sum_over_ranks.h"

#include "backend/kernel.h"
#include "base/sizes.h"
#include "dist/collective.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/collectives/sum_over_ranks/operands.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void sum_of_ranks_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void sum_of_ranks_cuda(const KernelArgs& args);

namespace sum_of_ranks_op {
namespace {

std::vector<ValueType> infer_numbers(TypeList inputs, const Attributes& attributes) {
  expect_f32("numbers_of_ranks", "x", *inputs[kX]);
  return {{DType::kF32, {attributes.integer("ranks") * inputs[kX]->shape.elems()}}};
}

Cost cost_of_numbers(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = memory_cost(inputs, outputs, attributes);
  result.sent_bytes = static_cast<double>(outputs[0]->bytes() - inputs[kX]->bytes());
  return result;
}

void gather(const CollectiveArgs& args) {
  const auto ranks = static_cast<int>(args.attributes.integer("ranks"));
  const TensorView& numbers = args.outputs[0];
  const Cut cut = {.elems = numbers.elems(), .part_elems = numbers.elems() / ranks, .ranks = ranks};
  args.peers.gather(span_of(args.inputs[kX].as<const std::byte>(), cut.part_elems * size_of(DType::kF32)),
                    span_of(numbers.as<std::byte>(), numbers.bytes()), cut, size_of(DType::kF32));
}

const OpDef kNumbersOfRanks{.name = "numbers_of_ranks",
                            .infer = infer_numbers,
                            .cost = cost_of_numbers,
                            .recompute_cost = RecomputeCost::kProduct,
                            .collective = gather,
                            .held = Held::kOwn};

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  expect_same("sum_of_ranks", "numbers", *inputs[kNumbers], infer_numbers(inputs, attributes).front());
  return {*inputs[kX]};
}

// All ranks compute the same of the sum, each with the gradient of its own addend.
void vjp(VjpContext& context) { context.add(kX, context.cotangent(0)); }

const OpDef kSumOfRanks{.name = "sum_of_ranks",
                        .infer = infer,
                        .vjp = vjp,
                        .cost = memory_cost,
                        .cpu = sum_of_ranks_cpu,
                        .cuda = sum_of_ranks_cuda};

}  // namespace
}  // namespace sum_of_ranks_op

ValueId sum_over_ranks(Builder& builder, ValueId x, int64_t ranks) {
  using namespace sum_of_ranks_op;
  const ValueId numbers = builder.append_one(kNumbersOfRanks, {x}, {{"ranks", ranks}});
  return builder.append_one(kSumOfRanks, {x, numbers}, {{"ranks", ranks}});
}

}  // namespace spillway::ops
