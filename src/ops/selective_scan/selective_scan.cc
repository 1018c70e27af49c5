#include "ops/selective_scan/selective_scan.h"

#include <vector>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"
#include "ops/selective_scan/blocks.h"
#include "ops/selective_scan/operands.h"

namespace spillway::ops {

void selective_scan_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void selective_scan_cuda(const KernelArgs& args);
void selective_scan_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void selective_scan_grad_cuda(const KernelArgs& args);
void cached_selective_scan_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void cached_selective_scan_cuda(const KernelArgs& args);

namespace selective_scan_op {
namespace {

ScanSizes sizes_of(TypeList inputs) { return {inputs[kX]->shape, inputs[kRates]->shape}; }

// Checks the operands that all of these operations have, and returns the type of the result.
ValueType expect_operands(std::string_view op, TypeList inputs) {
  const ValueType &x = *inputs[kX], &rates = *inputs[kRates];
  expect_real(op, "x", x);
  expect_rank(op, "x", x, 2);
  expect_same(op, "steps", *inputs[kSteps], x);
  expect_rank(op, "rates", rates, 2);
  const int64_t state = rates.shape[1];
  if (state < 1 || state > kMaxScanState)
    throw input_error(op, "expected states of 1 to {} numbers, got {}; check the model's sizes", kMaxScanState, state);
  expect_same(op, "rates", rates, {DType::kF32, {x.shape[1], state}});
  for (const Input i : {kB, kC})
    expect_same(op, i == kB ? "b" : "c", *inputs[i], {x.dtype, {x.shape[0], state}, x.axis});
  return x;
}

std::vector<ValueType> infer(TypeList inputs, const Attributes&) {
  constexpr std::string_view kName = "selective_scan";
  const ValueType y = expect_operands(kName, inputs);
  const ValueType& offsets = *inputs[kSeqOffsets];
  expect_rank(kName, "seq_offsets", offsets, 1);
  expect_same(kName, "seq_offsets", offsets, {DType::kI32, offsets.shape});
  return {y};
}

// Returns the gradients of the first five inputs.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  expect_same("selective_scan_grad", "dy", *inputs[kDy], infer(inputs, attributes)[0]);
  return {*inputs[kX], *inputs[kSteps], *inputs[kRates], *inputs[kB], *inputs[kC]};
}

// Returns the flops of `passes` over all states, an exponential counted as ten.
double flops(TypeList inputs, double passes) {
  const ScanSizes sizes = sizes_of(inputs);
  return passes * 15 * static_cast<double>(sizes.tokens) * static_cast<double>(sizes.channels * sizes.state);
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = memory_cost(inputs, outputs, attributes);
  result.flops = flops(inputs, 1);
  return result;
}

Cost grad_cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost result = memory_cost(inputs, outputs, attributes);
  result.flops = flops(inputs, 3);
  return result;
}

int64_t cpu_workspace(TypeList inputs, TypeList, const Attributes&, int threads) {
  return scan_bytes(threads * scan_thread_floats(sizes_of(inputs), false));
}

const OpDef kSelectiveScanGrad{.name = "selective_scan_grad",
                               .infer = infer_grad,
                               .cost = grad_cost,
                               .workspace_bytes =
                                   [](TypeList inputs, TypeList, const Attributes&, int threads) {
                                     const ScanSizes sizes = sizes_of(inputs);
                                     return scan_bytes(sizes.kept_floats() +
                                                       sizes.partial_floats(scan_blocks(sizes.channels)) +
                                                       threads * scan_thread_floats(sizes, true));
                                   },
                               .cuda_workspace_bytes =
                                   [](TypeList inputs, TypeList, const Attributes&) {
                                     const ScanSizes sizes = sizes_of(inputs);
                                     const int64_t blocks = scan_gpu_blocks(sizes.channels);
                                     return scan_bytes(sizes.kept_floats() + sizes.partial_floats(blocks) +
                                                       blocks * scan_gpu_block_floats(sizes, true));
                                   },
                               .cpu = selective_scan_grad_cpu,
                               .cuda = selective_scan_grad_cuda};

void vjp(VjpContext& context) {
  std::vector<ValueId> inputs;
  for (int i = 0; i <= kSeqOffsets; ++i) inputs.push_back(context.input(i));
  inputs.push_back(context.cotangent(0));
  const std::vector<ValueId> gradients = context.builder().append(kSelectiveScanGrad, std::move(inputs), {});
  for (int i = 0; i < kSeqOffsets; ++i)
    if (context.wants(i)) context.add(i, gradients[static_cast<size_t>(i)]);
}

const OpDef kSelectiveScan{
    .name = "selective_scan",
    .infer = infer,
    .vjp = vjp,
    .cost = cost,
    .workspace_bytes = cpu_workspace,
    .cuda_workspace_bytes =
        [](TypeList inputs, TypeList, const Attributes&) {
          const ScanSizes sizes = sizes_of(inputs);
          const int64_t sequences = inputs[kSeqOffsets]->shape[0];
          return scan_bytes(scan_gpu_units(sizes.channels, sequences) * scan_gpu_block_floats(sizes, false));
        },
    .recompute_cost = RecomputeCost::kAttention,
    .cpu = selective_scan_cpu,
    .cuda = selective_scan_cuda};

// Returns y and the state.
std::vector<ValueType> infer_cached(TypeList inputs, const Attributes&) {
  constexpr std::string_view kName = "cached_selective_scan";
  const ValueType y = expect_operands(kName, inputs);
  const ValueType& state = *inputs[cached_selective_scan_op::kState];
  expect_rank(kName, "the state", state, 2);
  expect_same(kName, "the state", state, {DType::kF32, {state.shape[0], inputs[kRates]->shape.elems()}});
  for (const auto i : {cached_selective_scan_op::kSlots, cached_selective_scan_op::kPositions})
    expect_row_numbers(kName, "slots and positions", *inputs[i], DType::kI32, *inputs[kX]);
  return {y, state};
}

// Returns the cost in place: each token reads and writes the states of its sequence.
Cost cached_cost(TypeList inputs, TypeList outputs, const Attributes&) {
  const ScanSizes sizes = sizes_of(inputs);
  const double states = static_cast<double>(sizes.tokens) * static_cast<double>(sizes.channels * sizes.state);
  return {.flops = flops(inputs, 1),
          .bytes = static_cast<double>(2 * inputs[kX]->bytes() + outputs[0]->bytes()) +
                   static_cast<double>(inputs[kRates]->bytes()) + 2 * sizeof(float) * states};
}

const OpDef kCachedSelectiveScan{
    .name = "cached_selective_scan",
    .infer = infer_cached,
    .cost = cached_cost,
    .workspace_bytes = cpu_workspace,
    .cuda_workspace_bytes =
        [](TypeList inputs, TypeList, const Attributes&) {
          const ScanSizes sizes = sizes_of(inputs);
          return scan_bytes(scan_gpu_blocks(sizes.channels) * scan_gpu_block_floats(sizes, false));
        },
    .in_place = {{1, cached_selective_scan_op::kState}},
    .cpu = cached_selective_scan_cpu,
    .cuda = cached_selective_scan_cuda};

}  // namespace
}  // namespace selective_scan_op

ValueId selective_scan(Builder& builder, const ScanOperands& operands, ValueId seq_offsets) {
  return builder.append_one(selective_scan_op::kSelectiveScan,
                            {operands.x, operands.steps, operands.rates, operands.b, operands.c, seq_offsets});
}

CachedScan cached_selective_scan(Builder& builder, const ScanOperands& operands, const ScanState& state) {
  const std::vector<ValueId> results = builder.append(
      selective_scan_op::kCachedSelectiveScan,
      {operands.x, operands.steps, operands.rates, operands.b, operands.c, state.rows, state.slots, state.positions});
  builder.update(state.rows, results[1]);
  return {.y = results[0], .rows = results[1]};
}

}  // namespace spillway::ops
