#include "ops/narrow_rows/narrow_rows.h"

#include "backend/kernel.h"
#include "ops/check.h"
#include "ops/narrow_rows/operands.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void widen_rows_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void widen_rows_cuda(const KernelArgs& args);
void narrow_rows_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void narrow_rows_cuda(const KernelArgs& args);

namespace narrow_rows_op {
namespace {

void expect_bf16(std::string_view op, const ValueType& x) { expect_same(op, "x", x, {DType::kBF16, x.shape}); }

std::vector<ValueType> infer_widen(TypeList inputs, const Attributes& attributes) {
  expect_bf16("widen_rows", *inputs[0]);
  return {{DType::kF32, shape_of(slice_of(attributes), inputs[0]->shape)}};
}

std::vector<ValueType> infer_narrow(TypeList inputs, const Attributes& attributes) {
  const ValueType& x = *inputs[kX];
  expect_bf16("narrow_rows", x);
  expect_same("narrow_rows", "values", *inputs[kValues], {DType::kF32, shape_of(slice_of(attributes), x.shape)});
  if (inputs[kStep] != nullptr) expect_scalar("narrow_rows", "step", *inputs[kStep], DType::kI32);
  return {x};
}

// Counts the slice as read in one type and written in the other.
Cost cost(TypeList, TypeList, const Attributes& attributes) {
  return {.bytes = 6.0 * static_cast<double>(attributes.integer("elems"))};
}

const OpDef kWidenRows{
    .name = "widen_rows", .infer = infer_widen, .cost = cost, .cpu = widen_rows_cpu, .cuda = widen_rows_cuda};

const OpDef kNarrowRows{.name = "narrow_rows",
                        .infer = infer_narrow,
                        .cost = cost,
                        .in_place = {{0, kX}},
                        .cpu = narrow_rows_cpu,
                        .cuda = narrow_rows_cuda};

Attributes slice_attributes(const RowSlice& rows, const Shape& shape) {
  return {{"first_row", rows.first}, {"rows", rows.count}, {"elems", shape_of(rows, shape).elems()}};
}

}  // namespace
}  // namespace narrow_rows_op

ValueId widen_rows(Builder& builder, ValueId x, const RowSlice& rows) {
  return builder.append_one(narrow_rows_op::kWidenRows, {x},
                            narrow_rows_op::slice_attributes(rows, builder.type(x).shape));
}

ValueId narrow_rows(Builder& builder, ValueId values, ValueId x, const RowSlice& rows,
                    const std::optional<StochasticRounding>& rounding) {
  Attributes attributes = narrow_rows_op::slice_attributes(rows, builder.type(x).shape);
  const StochasticRounding said = rounding.value_or(StochasticRounding{});
  attributes.add("stochastic", int64_t{rounding.has_value()});
  attributes.add("seed", said.seed);
  attributes.add("stream", said.stream);
  const ValueId next = builder.append_one(narrow_rows_op::kNarrowRows, {values, x, said.step}, std::move(attributes));
  builder.update(x, next);
  return next;
}

}  // namespace spillway::ops
