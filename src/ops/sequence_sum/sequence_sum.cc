#include "ops/sequence_sum/sequence_sum.h"

#include <utility>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/check.h"
#include "ops/optional_kernel.h"
#include "ops/sequence_sum/operands.h"

namespace spillway::ops {

void sequence_sum_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void sequence_sum_cuda(const KernelArgs& args);
void sequence_spread_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void sequence_spread_cuda(const KernelArgs& args);

namespace sequence_sum_op {
namespace {

constexpr std::string_view kName = "sequence_sum";

ValueType row_numbers(const Attributes& attributes) {
  return {DType::kF32, {attributes.integer("rows")}, static_cast<AxisId>(attributes.integer(kAxisAttribute))};
}

// Returns [T], or [T, 1], of the stream whose rows are counted by the axis behind its own.
ValueType token_numbers(int64_t tokens, int64_t rank, const Attributes& attributes) {
  const int64_t rows = attributes.integer(kAxisAttribute);
  const AxisId axis = rows > 0 ? static_cast<AxisId>(rows - 1) : kTokenAxis;
  return {DType::kF32, rank == 2 ? Shape{tokens, 1} : Shape{tokens}, axis};
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType &x = *inputs[kX], &offsets = *inputs[kSeqOffsets];
  expect_f32(kName, "x", x);
  expect_same(kName, "x", x, token_numbers(x.shape[0], x.shape.rank(), attributes));
  if (inputs[kWeights] != nullptr)
    expect_same(kName, "weights", *inputs[kWeights], token_numbers(x.shape[0], 1, attributes));
  expect_rank(kName, "seq_offsets", offsets, 1);
  const ValueType rows = row_numbers(attributes);
  const int64_t last = attributes.integer("first") + (rows.shape[0] - 1) * attributes.integer("stride");
  expect_same(kName, "seq_offsets", offsets, {DType::kI32, {std::max(last + 2, offsets.shape[0])}});
  return {rows};
}

// Takes inputs x of the rows, weights and seq_offsets.
std::vector<ValueType> infer_spread(TypeList inputs, const Attributes& attributes) {
  expect_same("sequence_spread", "x", *inputs[kX], row_numbers(attributes));
  return {token_numbers(attributes.integer("tokens"), attributes.integer("rank"), attributes)};
}

SequencesOfRows rows_of(const Attributes& attributes) {
  return {.axis = static_cast<AxisId>(attributes.integer(kAxisAttribute)),
          .first = attributes.integer("first"),
          .stride = attributes.integer("stride")};
}

void refuse_trained_weights(const VjpContext& context, std::string_view name) {
  if (context.wants(kWeights))
    throw input_error(name, "expected weights without a gradient, got trained ones; detach them");
}

// Appends the other operation, since each is the other's gradient.
void spread_vjp(VjpContext& context) {
  refuse_trained_weights(context, "sequence_spread");
  context.add(kX, sequence_sum(context.builder(), context.cotangent(0), context.input(kWeights),
                               context.input(kSeqOffsets), rows_of(context.attributes())));
}

const OpDef kSequenceSpread{.name = "sequence_spread",
                            .infer = infer_spread,
                            .vjp = spread_vjp,
                            .cost = memory_cost,
                            .cpu = sequence_spread_cpu,
                            .cuda = sequence_spread_cuda};

ValueId append_spread(Builder& builder, std::vector<ValueId> inputs, Attributes attributes, int64_t tokens,
                      int64_t rank) {
  attributes.add("tokens", tokens);
  attributes.add("rank", rank);
  return builder.append_one(kSequenceSpread, std::move(inputs), std::move(attributes));
}

void sum_vjp(VjpContext& context) {
  refuse_trained_weights(context, kName);
  const Shape& shape = context.input_type(kX).shape;
  context.add(
      kX, append_spread(context.builder(), {context.cotangent(0), context.input(kWeights), context.input(kSeqOffsets)},
                        context.attributes(), shape[0], shape.rank()));
}

const OpDef kSequenceSum{.name = kName,
                         .infer = infer,
                         .vjp = sum_vjp,
                         .cost = memory_cost,
                         .cpu = sequence_sum_cpu,
                         .cuda = sequence_sum_cuda};

Attributes attributes_of(Builder& builder, const SequencesOfRows& rows) {
  return {{"rows", builder.graph().axis(rows.axis).capacity},
          {kAxisAttribute, static_cast<int64_t>(rows.axis)},
          {"first", rows.first},
          {"stride", rows.stride}};
}

}  // namespace
}  // namespace sequence_sum_op

ValueId sequence_sum(Builder& builder, ValueId x, ValueId weights, ValueId seq_offsets, const SequencesOfRows& rows) {
  return builder.append_one(sequence_sum_op::kSequenceSum, {x, weights, seq_offsets},
                            sequence_sum_op::attributes_of(builder, rows));
}

ValueId sequence_spread(Builder& builder, ValueId x, ValueId weights, ValueId seq_offsets,
                        const SequencesOfRows& rows) {
  return sequence_sum_op::append_spread(builder, {x, weights, seq_offsets},
                                        sequence_sum_op::attributes_of(builder, rows), builder.graph().tokens(), 1);
}

}  // namespace spillway::ops
