#include "ops/sequence_sum/sequence_sum.h"

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/sequence_sum/operands.h"

namespace spillway::ops {

void sequence_sum_cpu(const KernelArgs& args);
void sequence_sum_cuda(const KernelArgs& args);
void sequence_sum_grad_cpu(const KernelArgs& args);
void sequence_sum_grad_cuda(const KernelArgs& args);

namespace {

constexpr std::string_view kName = "sequence_sum";

ValueType row_numbers(const Attributes& attributes) {
  return {DType::kF32, {attributes.integer("rows")}, static_cast<AxisId>(attributes.integer("axis"))};
}

// [T], or [T, 1].
ValueType token_numbers(int64_t tokens, int64_t rank) {
  return {DType::kF32, rank == 2 ? Shape{tokens, 1} : Shape{tokens}, kTokenAxis};
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType &x = *inputs[kX], &offsets = *inputs[kSeqOffsets];
  expect_f32(kName, "x", x);
  expect_same(kName, "x", x, token_numbers(x.shape[0], x.shape.rank()));
  if (inputs[kWeights] != nullptr) expect_same(kName, "weights", *inputs[kWeights], token_numbers(x.shape[0], 1));
  expect_rank(kName, "seq_offsets", offsets, 1);
  const ValueType rows = row_numbers(attributes);
  const int64_t last = attributes.integer("first") + (rows.shape[0] - 1) * attributes.integer("stride");
  expect_same(kName, "seq_offsets", offsets, {DType::kI32, {std::max(last + 2, offsets.shape[0])}});
  return {rows};
}

// Inputs dy, weights and seq_offsets; the output has x's type.
std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  expect_same("sequence_sum_grad", "dy", *inputs[kX], row_numbers(attributes));
  return {token_numbers(attributes.integer("tokens"), attributes.integer("rank"))};
}

const OpDef kSequenceSumGrad{.name = "sequence_sum_grad",
                             .infer = infer_grad,
                             .cost = memory_cost,
                             .cpu = sequence_sum_grad_cpu,
                             .cuda = SPILLWAY_CUDA_KERNEL(sequence_sum_grad_cuda)};

void vjp(VjpContext& context) {
  if (context.wants(kWeights))
    throw input_error(kName, "expected weights without a gradient, got trained ones; detach them");
  Attributes attributes = context.attributes();
  attributes.add("tokens", context.input_type(kX).shape[0]);
  attributes.add("rank", context.input_type(kX).shape.rank());
  context.add(kX, context.builder().append_one(
                      kSequenceSumGrad, {context.cotangent(0), context.input(kWeights), context.input(kSeqOffsets)},
                      attributes));
}

const OpDef kSequenceSum{.name = kName,
                         .infer = infer,
                         .vjp = vjp,
                         .cost = memory_cost,
                         .cpu = sequence_sum_cpu,
                         .cuda = SPILLWAY_CUDA_KERNEL(sequence_sum_cuda)};

}  // namespace

ValueId sequence_sum(Builder& builder, ValueId x, ValueId weights, ValueId seq_offsets, const SequenceRows& rows) {
  return builder.append_one(kSequenceSum, {x, weights, seq_offsets},
                            {{"rows", builder.graph().axis(rows.axis).capacity},
                             {"axis", static_cast<int64_t>(rows.axis)},
                             {"first", rows.first},
                             {"stride", rows.stride}});
}

}  // namespace spillway::ops
