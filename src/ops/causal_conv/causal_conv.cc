#include "ops/causal_conv/causal_conv.h"

#include <utility>

#include "backend/kernel.h"
#include "base/index.h"
#include "graph/autodiff.h"
#include "ops/causal_conv/operands.h"
#include "ops/check.h"
#include "ops/column_sums.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void causal_conv_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void causal_conv_cuda(const KernelArgs& args);
void causal_conv_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void causal_conv_grad_cuda(const KernelArgs& args);
void cached_causal_conv_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void cached_causal_conv_cuda(const KernelArgs& args);

namespace causal_conv_op {
namespace {

// Checks the first three operands, which all of these operations have.
void expect_operands(std::string_view op, TypeList inputs) {
  const ValueType &x = *inputs[kX], &weight = *inputs[kWeight];
  expect_real(op, "x", x);
  expect_rank(op, "x", x, 2);
  expect_real(op, "weight", weight);
  expect_rank(op, "weight", weight, 2);
  expect_shape(op, "weight", weight, {x.shape[1], weight.shape[1]});
  if (weight.shape[1] < 2 || weight.shape[1] > kMaxTaps)
    throw input_error(op, "expected from 2 to {} taps, got {}; check the model's sizes", kMaxTaps, weight.shape[1]);
  if (inputs[kBias] != nullptr) expect_same(op, "bias", *inputs[kBias], {weight.dtype, {x.shape[1]}});
}

void expect_offsets(std::string_view op, const ValueType& offsets) {
  expect_rank(op, "seq_offsets", offsets, 1);
  expect_same(op, "seq_offsets", offsets, {DType::kI32, offsets.shape});
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = memory_cost(inputs, outputs, attributes);
  result.flops = 2.0 * static_cast<double>(inputs[kX]->shape.elems() * inputs[kWeight]->shape[1]);
  return result;
}

// Returns the bytes of the taps and the bias as the kernel of the CPU has them, f32 [K + 1, C].
int64_t tap_bytes(TypeList inputs) {
  return (inputs[kWeight]->shape[1] + 1) * inputs[kWeight]->shape[0] * static_cast<int64_t>(sizeof(float));
}

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  expect_operands("causal_conv", inputs);
  expect_offsets("causal_conv", *inputs[kSeqOffsets]);
  return {*inputs[kX]};
}

// Returns dx and, where their dtypes are set, dw and db; there is no db without dw.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  constexpr std::string_view kName = "causal_conv_grad";
  expect_operands(kName, inputs);
  expect_offsets(kName, *inputs[kSeqOffsets]);
  expect_same(kName, "dy", *inputs[kDy], *inputs[kX]);
  std::vector<ValueType> outputs = {*inputs[kX]};
  const auto add = [&](std::string_view key, Input of, Input addend) {
    const int64_t dtype = attributes.integer(key);
    if (dtype < 0) return;
    outputs.push_back({static_cast<DType>(dtype), inputs[of]->shape});
    expect_real(kName, "a gradient", outputs.back());
    if (inputs[addend] != nullptr) expect_same(kName, "an addend", *inputs[addend], outputs.back());
  };
  add("weight_dtype", kWeight, kWeightAddend);
  add("bias_dtype", kBias, kBiasAddend);
  return outputs;
}

Cost grad_cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = cost(inputs, outputs, attributes);
  result.flops *= outputs.size() > 1 ? 2 : 1;
  return result;
}

int64_t sums_bytes(TypeList inputs, TypeList outputs) {
  const Shape& weight = inputs[kWeight]->shape;
  return outputs.size() > 1 ? column_sums_bytes((weight[1] + 1) * weight[0]) : 0;
}

const OpDef kCausalConvGrad{.name = "causal_conv_grad",
                            .infer = infer_grad,
                            .cost = grad_cost,
                            .workspace_bytes = [](TypeList inputs, TypeList outputs, const Attributes&,
                                                  int) { return tap_bytes(inputs) + sums_bytes(inputs, outputs); },
                            .cuda_workspace_bytes = [](TypeList inputs, TypeList outputs,
                                                       const Attributes&) { return sums_bytes(inputs, outputs); },
                            .in_place = {{1, kWeightAddend}, {2, kBiasAddend}},
                            .cpu = causal_conv_grad_cpu,
                            .cuda = causal_conv_grad_cuda};

void vjp(VjpContext& context) {
  const auto dtype = [&](Input i, int64_t otherwise) {
    return context.wants(i) ? static_cast<int64_t>(context.gradient_dtype(i)) : otherwise;
  };
  const int64_t of_bias = dtype(kBias, -1);
  const auto addend = [&](Input i) { return context.wants(i) ? context.take_addend(i) : kNone; };
  const ValueId weight_addend = addend(kWeight), bias_addend = addend(kBias);
  const std::vector<ValueId> gradients =
      context.builder().append(kCausalConvGrad,
                               {context.input(kX), context.input(kWeight), context.input(kBias),
                                context.input(kSeqOffsets), context.cotangent(0), weight_addend, bias_addend},
                               {{"weight_dtype", dtype(kWeight, of_bias)}, {"bias_dtype", of_bias}});
  for (const Input i : {kX, kWeight, kBias}) {
    if (context.wants(i)) context.add(i, nth(gradients, static_cast<int>(i)));
  }
}

const OpDef kCausalConv{
    .name = "causal_conv",
    .infer = infer,
    .vjp = vjp,
    .cost = cost,
    .workspace_bytes = [](TypeList inputs, TypeList, const Attributes&, int) { return tap_bytes(inputs); },
    .cuda_workspace_bytes = [](TypeList, TypeList, const Attributes&) { return int64_t{0}; },
    .cpu = causal_conv_cpu,
    .cuda = causal_conv_cuda};

// Returns y and the state.
std::vector<ValueType> infer_cached(TypeList inputs, const Attributes&) {
  constexpr std::string_view kName = "cached_causal_conv";
  expect_operands(kName, inputs);
  const ValueType &x = *inputs[kX], &state = *inputs[cached_causal_conv_op::kState];
  expect_rank(kName, "the state", state, 2);
  const int64_t kept = inputs[kWeight]->shape[1] - 1;
  expect_same(kName, "the state", state, {x.dtype, {state.shape[0], kept * x.shape[1]}});
  for (const auto i : {cached_causal_conv_op::kSlots, cached_causal_conv_op::kPositions})
    expect_row_numbers(kName, "slots and positions", *inputs[i], DType::kI32, x);
  return {x, state};
}

// Returns the cost in place, where only rows of new tokens' sequences move.
Cost cached_cost(TypeList inputs, TypeList, const Attributes&) {
  const ValueType &x = *inputs[kX], &weight = *inputs[kWeight];
  const auto taps = static_cast<double>(weight.shape[1]);
  return {.flops = 2.0 * taps * static_cast<double>(x.shape.elems()),
          .bytes = (2 + taps) * static_cast<double>(x.bytes()) + static_cast<double>(weight.bytes())};
}

const OpDef kCachedCausalConv{
    .name = "cached_causal_conv",
    .infer = infer_cached,
    .cost = cached_cost,
    .workspace_bytes = [](TypeList inputs, TypeList, const Attributes&, int) { return tap_bytes(inputs); },
    .cuda_workspace_bytes = [](TypeList, TypeList, const Attributes&) { return int64_t{0}; },
    .in_place = {{1, cached_causal_conv_op::kState}},
    .cpu = cached_causal_conv_cpu,
    .cuda = cached_causal_conv_cuda};

}  // namespace
}  // namespace causal_conv_op

ValueId causal_conv(Builder& builder, ValueId x, ValueId weight, ValueId bias, ValueId seq_offsets) {
  return builder.append_one(causal_conv_op::kCausalConv, {x, weight, bias, seq_offsets});
}

CachedConv cached_causal_conv(Builder& builder, ValueId x, ValueId weight, ValueId bias, const ConvState& state) {
  const std::vector<ValueId> results =
      builder.append(causal_conv_op::kCachedCausalConv, {x, weight, bias, state.rows, state.slots, state.positions});
  builder.update(state.rows, results[1]);
  return {.y = results[0], .rows = results[1]};
}

}  // namespace spillway::ops
