#include "ops/gated_delta_rule/gated_delta_rule.h"

#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/gated_delta_rule/operands.h"
#include "ops/gated_delta_rule/scratch.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void gated_delta_rule_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void gated_delta_rule_cuda(const KernelArgs& args);
void gated_delta_rule_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void gated_delta_rule_grad_cuda(const KernelArgs& args);
void cached_gated_delta_rule_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void cached_gated_delta_rule_cuda(const KernelArgs& args);

namespace gated_delta_rule_op {
namespace {

void expect_heads(std::string_view op, const DeltaSizes& sizes) {
  const auto expect_size = [&](std::string_view what, int64_t size, int64_t most) {
    if (size < 1 || size > most)
      throw input_error(op, "expected {} from 1 to {}, got {}; check the model's sizes", what, most, size);
  };
  expect_size("heads of values", sizes.value_heads, int64_t{1} << 20);
  expect_divides(op, "a number of heads of keys", sizes.key_heads, sizes.value_heads);
  expect_size("keys of a size", sizes.key_dim, kMaxDeltaDim);
  expect_size("values of a size", sizes.value_dim, kMaxDeltaDim);
}

// Checks the first three operands, which all of these operations have, and returns the type of the result.
ValueType expect_operands(std::string_view op, TypeList inputs, const DeltaSizes& sizes) {
  expect_heads(op, sizes);
  const ValueType& qkv = *inputs[kQkv];
  const int64_t tokens = qkv.shape[0];
  expect_real(op, "qkv", qkv);
  expect_same(op, "qkv", qkv, {qkv.dtype, {tokens, sizes.columns()}, qkv.axis});
  for (const Input i : {kDecay, kBeta})
    expect_same(op, i == kDecay ? "decay" : "beta", *inputs[i], {DType::kF32, {tokens, sizes.value_heads}, qkv.axis});
  return {qkv.dtype, {tokens, sizes.value_heads * sizes.value_dim}, qkv.axis};
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "gated_delta_rule";
  const ValueType y = expect_operands(kName, inputs, DeltaSizes(attributes));
  const ValueType& offsets = *inputs[kSeqOffsets];
  expect_rank(kName, "seq_offsets", offsets, 1);
  expect_same(kName, "seq_offsets", offsets, {DType::kI32, offsets.shape});
  return {y};
}

// Returns the gradients of qkv, decay and beta.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  expect_same("gated_delta_rule_grad", "dy", *inputs[kDy], infer(inputs, attributes)[0]);
  return {*inputs[kQkv], *inputs[kDecay], *inputs[kBeta]};
}

// Returns the flops of the products with states and of those within chunks, `passes` times as many as forward.
double flops(TypeList inputs, const DeltaSizes& sizes, double passes) {
  const auto tokens = static_cast<double>(inputs[kQkv]->shape[0]), heads = static_cast<double>(sizes.value_heads);
  const auto keys = static_cast<double>(sizes.key_dim), values = static_cast<double>(sizes.value_dim);
  return passes * 2 * tokens * heads * ((sizes.corrects ? 3 : 2) * keys * values + kDeltaChunk * (keys + 2 * values));
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = memory_cost(inputs, outputs, attributes);
  result.flops = flops(inputs, DeltaSizes(attributes), 1);
  return result;
}

Cost grad_cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = memory_cost(inputs, outputs, attributes);
  result.flops = flops(inputs, DeltaSizes(attributes), 3.5);
  return result;
}

const OpDef kGatedDeltaRuleGrad{
    .name = "gated_delta_rule_grad",
    .infer = infer_grad,
    .cost = grad_cost,
    .workspace_bytes =
        [](TypeList inputs, TypeList, const Attributes& attributes, int threads) {
          return delta_workspace_bytes(DeltaSizes(attributes), inputs[kQkv]->shape[0], threads, true);
        },
    .cuda_workspace_bytes =
        [](TypeList inputs, TypeList, const Attributes& attributes) {
          const DeltaSizes sizes(attributes);
          return delta_workspace_bytes(sizes, inputs[kQkv]->shape[0],
                                       delta_blocks(sizes.key_heads, inputs[kSeqOffsets]->shape[0]), true);
        },
    .cpu = gated_delta_rule_grad_cpu,
    .cuda = gated_delta_rule_grad_cuda};

void vjp(VjpContext& context) {
  const std::vector<ValueId> gradients =
      context.builder().append(kGatedDeltaRuleGrad,
                               {context.input(kQkv), context.input(kDecay), context.input(kBeta),
                                context.input(kSeqOffsets), context.cotangent(0)},
                               context.attributes());
  for (const Input i : {kQkv, kDecay, kBeta}) {
    if (context.wants(i)) context.add(i, gradients[static_cast<size_t>(i)]);
  }
}

const OpDef kGatedDeltaRule{
    .name = "gated_delta_rule",
    .infer = infer,
    .vjp = vjp,
    .cost = cost,
    .workspace_bytes =
        [](TypeList inputs, TypeList, const Attributes& attributes, int threads) {
          return delta_workspace_bytes(DeltaSizes(attributes), inputs[kQkv]->shape[0], threads, false);
        },
    .cuda_workspace_bytes =
        [](TypeList inputs, TypeList, const Attributes& attributes) {
          const DeltaSizes sizes(attributes);
          return delta_workspace_bytes(sizes, inputs[kQkv]->shape[0],
                                       delta_blocks(sizes.value_heads, inputs[kSeqOffsets]->shape[0]), false);
        },
    .recompute_cost = RecomputeCost::kAttention,
    .cpu = gated_delta_rule_cpu,
    .cuda = gated_delta_rule_cuda};

// Returns y and the state.
std::vector<ValueType> infer_cached(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "cached_gated_delta_rule";
  const DeltaSizes sizes(attributes);
  const ValueType y = expect_operands(kName, inputs, sizes);
  const ValueType& state = *inputs[cached_gated_delta_rule_op::kState];
  expect_rank(kName, "the state", state, 2);
  const int64_t width = sizes.value_heads * sizes.key_dim * sizes.value_dim;
  expect_same(kName, "the state", state, {DType::kF32, {state.shape[0], width}});
  for (const auto i : {cached_gated_delta_rule_op::kSlots, cached_gated_delta_rule_op::kPositions})
    expect_row_numbers(kName, "slots and positions", *inputs[i], DType::kI32, *inputs[kQkv]);
  return {y, state};
}

// Returns the cost in place: each token reads and writes the states of its sequence.
Cost cached_cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  const DeltaSizes sizes(attributes);
  const auto tokens = static_cast<double>(inputs[kQkv]->shape[0]);
  const double state = static_cast<double>(sizes.value_heads * sizes.key_dim * sizes.value_dim);
  return {
      .flops = 7 * tokens * state,
      .bytes = static_cast<double>(inputs[kQkv]->bytes() + outputs[0]->bytes()) + 2 * sizeof(float) * tokens * state};
}

const OpDef kCachedGatedDeltaRule{
    .name = "cached_gated_delta_rule",
    .infer = infer_cached,
    .cost = cached_cost,
    .workspace_bytes =
        [](TypeList, TypeList, const Attributes& attributes, int threads) {
          return threads * recurrence_floats(DeltaSizes(attributes)) * static_cast<int64_t>(sizeof(float));
        },
    .cuda_workspace_bytes = [](TypeList, TypeList, const Attributes&) { return int64_t{0}; },
    .in_place = {{1, cached_gated_delta_rule_op::kState}},
    .cpu = cached_gated_delta_rule_cpu,
    .cuda = cached_gated_delta_rule_cuda};

Attributes attributes_of(const DeltaHeads& heads) {
  Attributes attributes{{"key_heads", heads.key_heads},
                        {"value_heads", heads.value_heads},
                        {"key_dim", heads.key_dim},
                        {"value_dim", heads.value_dim}};
  if (heads.rule == StateRule::kAdds) attributes.add("adds", int64_t{1});
  return attributes;
}

}  // namespace
}  // namespace gated_delta_rule_op

ValueId gated_delta_rule(Builder& builder, ValueId qkv, ValueId decay, ValueId beta, ValueId seq_offsets,
                         const DeltaHeads& heads) {
  return builder.append_one(gated_delta_rule_op::kGatedDeltaRule, {qkv, decay, beta, seq_offsets},
                            gated_delta_rule_op::attributes_of(heads));
}

CachedDelta cached_gated_delta_rule(Builder& builder, ValueId qkv, ValueId decay, ValueId beta, const DeltaState& state,
                                    const DeltaHeads& heads) {
  const std::vector<ValueId> results = builder.append(gated_delta_rule_op::kCachedGatedDeltaRule,
                                                      {qkv, decay, beta, state.rows, state.slots, state.positions},
                                                      gated_delta_rule_op::attributes_of(heads));
  builder.update(state.rows, results[1]);
  return {.y = results[0], .rows = results[1]};
}

}  // namespace spillway::ops
