#include "ops/quantised_grouped_linear/quantised_grouped_linear.h"

#include <optional>
#include <vector>

#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"
#include "ops/quantised_grouped_linear/operands.h"

namespace spillway::ops {

void quantised_grouped_linear_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void quantised_grouped_linear_cuda(const KernelArgs& args);

namespace quantised_grouped_linear_op {
namespace {

constexpr std::string_view kName = "quantised_grouped_linear";

// Returns the type of a weight's elements in a product with rows of x.
ValueType decoded_type(TypeList inputs, const CodedWeights& weights) { return {inputs[kX]->dtype, weights.shape}; }

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const CodedWeights weights = coded_weights(attributes);
  expect_real(kName, "x", *inputs[kX]);
  const std::vector<ValueType> parts = quantised_parts(weights.format, weights.shape[0], weights.shape[1]);
  const auto given = std::ssize(inputs) - kFirstWeight;
  if (given == 0 || given % weights.parts() != 0)
    throw input_error(kName, "expected {} parts of each weight, got {} parts; give those of the format",
                      weights.parts(), given);
  for (int64_t i = 0; i < given; ++i)
    expect_same(kName, "weight", *inputs[static_cast<size_t>(kFirstWeight + i)],
                parts[static_cast<size_t>(i % weights.parts())]);
  return {infer_rows(kName, inputs, decoded_type(inputs, weights), weights.experts(std::ssize(inputs)), attributes)};
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  const CodedWeights weights = coded_weights(attributes);
  return cost_of_rows(inputs, outputs, decoded_type(inputs, weights), weights.experts(std::ssize(inputs)), attributes);
}

std::optional<Guard> guard(TypeList inputs, const Attributes& attributes, int input) {
  if (input < kFirstWeight) return std::nullopt;
  return guard_of_expert(inputs, attributes, (input - kFirstWeight) / coded_weights(attributes).parts());
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  const ValueType& x = *inputs[kX];
  const Sizes sizes = sizes_of(x.shape, coded_weights(attributes).shape, attributes);
  return workspace_of_rows(sizes, x.shape, x.dtype, x.dtype, threads, cpu::decoding_matmul_workspace_bytes).bytes;
}

int64_t no_workspace(TypeList, TypeList, const Attributes&) { return 0; }

void vjp(VjpContext& context);

const OpDef kQuantisedGroupedLinear{.name = "quantised_grouped_linear",
                                    .infer = infer,
                                    .vjp = vjp,
                                    .cost = cost,
                                    .workspace_bytes = workspace_bytes,
                                    .cuda_workspace_bytes = no_workspace,
                                    .in_place = {{0, 2}},  // kAddend
                                    .recompute_cost = RecomputeCost::kProduct,
                                    .guard = guard,
                                    .cpu = quantised_grouped_linear_cpu,
                                    .cuda = quantised_grouped_linear_cuda};

ValueId append_product(Builder& builder, std::vector<ValueId> inputs, int64_t pairs, int64_t first, bool transposed,
                       const CodedWeights& weights) {
  Attributes attributes{{"pairs", pairs}, {"first_expert", first}, {"transposed", int64_t{transposed}}};
  add_weight(attributes, weights.format, weights.shape[0], weights.shape[1]);
  return builder.append_one(kQuantisedGroupedLinear, std::move(inputs), std::move(attributes));
}

void vjp(VjpContext& context) {
  const Attributes attributes = context.attributes();
  const ValueId dy = context.cotangent(0);
  if (context.wants(kX)) {
    std::vector<ValueId> inputs = {dy, context.input(kOffsets), context.take_addend(kX)};
    for (int i = kFirstWeight; i < context.inputs(); ++i) inputs.push_back(context.input(i));
    context.add(kX, append_product(context.builder(), std::move(inputs), attributes.integer("pairs"),
                                   attributes.integer("first_expert"), attributes.integer("transposed") == 0,
                                   coded_weights(attributes)));
  }
  if (context.wants(kAddend)) add_cotangent(context, kAddend, dy);
}

}  // namespace
}  // namespace quantised_grouped_linear_op

ValueId quantised_grouped_linear(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token,
                                 const QuantisedOperand& weights, const GroupedLinearOptions& options) {
  SPILLWAY_CHECK(!weights.parts.empty(), "a product with no expert");
  std::vector<ValueId> inputs = {x, offsets, options.addend};
  inputs.insert(inputs.end(), weights.parts.begin(), weights.parts.end());
  return quantised_grouped_linear_op::append_product(builder, std::move(inputs), pairs_per_token, options.first_expert,
                                                     !options.are_in_by_out,
                                                     {weights.format, {weights.rows, weights.columns}});
}

}  // namespace spillway::ops
