#include "ops/balance_loss/balance_loss.h"

#include <vector>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/balance_loss/operands.h"
#include "ops/check.h"
#include "ops/column_sums.h"
#include "ops/optional_kernel.h"
#include "ops/route/route.h"

namespace spillway::ops {

void router_load_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void router_load_cuda(const KernelArgs& args);
void router_load_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void router_load_grad_cuda(const KernelArgs& args);
void balance_loss_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void balance_loss_cuda(const KernelArgs& args);
void balance_loss_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void balance_loss_grad_cuda(const KernelArgs& args);
void largest_load_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void largest_load_cuda(const KernelArgs& args);
void reached_experts_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void reached_experts_cuda(const KernelArgs& args);

namespace balance_loss_op {
namespace {

constexpr std::string_view kLoadName = "router_load", kLossName = "balance_loss", kLargestName = "largest_load",
                           kReachedName = "reached_experts";

std::vector<ValueType> infer_load(TypeList inputs, const Attributes&) {
  const ValueType& logits = *inputs[kLogits];
  expect_f32(kLoadName, "logits", logits);
  expect_rank(kLoadName, "logits", logits, 2);
  const int64_t experts = logits.shape[1];
  if (experts > kMaxExperts)
    throw input_error(kLoadName, "expected at most {} experts, got {}; use a smaller mixture", kMaxExperts, experts);
  expect_same(kLoadName, "offsets", *inputs[kOffsets], {DType::kI32, {experts + 1}});
  if (inputs[kSeqOffsets] != nullptr) {
    expect_pairs(kLoadName, "order", *inputs[kOrder], logits);
    const ValueType& seq_offsets = *inputs[kSeqOffsets];
    expect_rank(kLoadName, "sequence offsets", seq_offsets, 1);
    expect_same(kLoadName, "sequence offsets", seq_offsets, {DType::kI32, seq_offsets.shape});
  }
  return {{DType::kF32, {2, experts}}};
}

int64_t load_workspace_bytes(TypeList inputs, TypeList, const Attributes&, int) {
  return column_sums_bytes(inputs[kLogits]->shape[1]);
}

std::vector<ValueType> infer_load_grad(TypeList inputs, const Attributes&) {
  const ValueType& logits = *inputs[kLogits];
  expect_same("router_load_grad", "the gradient", *inputs[kDLoad], {DType::kF32, {2, logits.shape[1]}});
  if (inputs[kAddend] != nullptr) expect_same("router_load_grad", "addend", *inputs[kAddend], logits);
  return {logits};
}

const OpDef kRouterLoadGrad{.name = "router_load_grad",
                            .infer = infer_load_grad,
                            .cost = memory_cost,
                            .in_place = {{0, kAddend}},
                            .cpu = router_load_grad_cpu,
                            .cuda = router_load_grad_cuda};

void load_vjp(VjpContext& context) {
  if (!context.wants(kLogits) || context.cotangent(0) == kNone) return;
  const ValueId addend = context.take_addend(kLogits);
  context.add(kLogits, context.builder().append_one(
                           kRouterLoadGrad,
                           {context.input(kLogits), context.cotangent(0), addend, context.input(kSeqOffsets)}, {}));
}

const OpDef kRouterLoad{.name = kLoadName,
                        .infer = infer_load,
                        .vjp = load_vjp,
                        .cost = memory_cost,
                        .workspace_bytes = load_workspace_bytes,
                        .cpu = router_load_cpu,
                        .cuda = router_load_cuda};

std::vector<ValueType> infer_loss(TypeList inputs, const Attributes&) {
  const ValueType& load = *inputs[kLoad];
  expect_rank(kLossName, "load", load, 2);
  expect_same(kLossName, "load", load, {DType::kF32, {2, load.shape[1]}});
  expect_scalar(kLossName, "weight", *inputs[kWeight], DType::kF32);
  return {{DType::kF32, {1}}, {DType::kF32, {1}}};
}

std::vector<ValueType> infer_loss_grad(TypeList inputs, const Attributes&) { return {*inputs[kLoad]}; }

const OpDef kBalanceLossGrad{.name = "balance_loss_grad",
                             .infer = infer_loss_grad,
                             .cost = memory_cost,
                             .cpu = balance_loss_grad_cpu,
                             .cuda = balance_loss_grad_cuda};

void loss_vjp(VjpContext& context) {
  SPILLWAY_CHECK(context.cotangent(0) == kNone && context.cotangent(1) == kNone, "{} must end the loss", kLossName);
  context.add(kLoad, context.builder().append_one(kBalanceLossGrad, {context.input(kLoad), context.input(kWeight)},
                                                  context.attributes()));
}

const OpDef kBalanceLoss{.name = kLossName,
                         .infer = infer_loss,
                         .vjp = loss_vjp,
                         .cost = memory_cost,
                         .cpu = balance_loss_cpu,
                         .cuda = balance_loss_cuda};

// Returns the type of a number that goes on from layer to layer.
std::vector<ValueType> infer_running(std::string_view name, TypeList inputs, DType dtype) {
  const ValueType& use = *inputs[kUse];
  const bool is_load = use.dtype == DType::kF32;
  expect_rank(name, "use", use, is_load ? 2 : 1);
  expect_same(name, "use", use,
              is_load ? ValueType{DType::kF32, {2, use.shape[1]}} : ValueType{DType::kI32, use.shape});
  if (inputs[kBefore] != nullptr) expect_scalar(name, "the number before", *inputs[kBefore], dtype);
  return {{dtype, {1}}};
}

std::vector<ValueType> infer_largest(TypeList inputs, const Attributes&) {
  return infer_running(kLargestName, inputs, DType::kF32);
}

const OpDef kLargestLoad{.name = kLargestName,
                         .infer = infer_largest,
                         .stops_gradients = true,
                         .cost = memory_cost,
                         .cpu = largest_load_cpu,
                         .cuda = largest_load_cuda};

std::vector<ValueType> infer_reached(TypeList inputs, const Attributes&) {
  return infer_running(kReachedName, inputs, DType::kI32);
}

const OpDef kReachedExperts{.name = kReachedName,
                            .infer = infer_reached,
                            .stops_gradients = true,
                            .cost = memory_cost,
                            .cpu = reached_experts_cpu,
                            .cuda = reached_experts_cuda};

}  // namespace
}  // namespace balance_loss_op

ValueId router_load(Builder& builder, ValueId logits, const SortedPairs& pairs, ValueId seq_offsets) {
  const ValueId order = seq_offsets == kNone ? kNone : pairs.order;
  return builder.append_one(balance_loss_op::kRouterLoad, {logits, pairs.offsets, order, seq_offsets}, {});
}

BalanceLoss balance_loss(Builder& builder, ValueId load, int64_t top_k, ValueId weight) {
  const std::vector<ValueId> outputs =
      builder.append(balance_loss_op::kBalanceLoss, {load, weight}, {{"top_k", top_k}});
  return {.weighted = outputs[0], .loss = outputs[1]};
}

ValueId largest_load(Builder& builder, ValueId use, ValueId before) {
  return builder.append_one(balance_loss_op::kLargestLoad, {use, before}, {});
}

ValueId reached_experts(Builder& builder, ValueId use, ValueId before) {
  return builder.append_one(balance_loss_op::kReachedExperts, {use, before}, {});
}

}  // namespace spillway::ops
