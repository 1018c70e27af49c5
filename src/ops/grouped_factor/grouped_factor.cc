#include "ops/grouped_factor/grouped_factor.h"

#include <vector>

#include "base/math.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/grouped_factor/operands.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void grouped_factor_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void grouped_factor_cuda(const KernelArgs& args);
void grouped_factor_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void grouped_factor_grad_cuda(const KernelArgs& args);

namespace grouped_factor_op {
namespace {

constexpr std::string_view kName = "grouped_factor", kGradName = "grouped_factor_grad";

int64_t experts_of(const ValueType& offsets) { return offsets.shape[0] - 1; }

// Throws InputError unless the experts share the factor evenly.
FactorLayout expect_factor(std::string_view op, const ValueType& offsets, const ValueType& factor,
                           const Attributes& attributes) {
  expect_rank(op, "offsets", offsets, 1);
  expect_same(op, "offsets", offsets, {DType::kI32, offsets.shape});
  expect_real(op, "factor", factor);
  expect_rank(op, "factor", factor, 2);
  const bool is_b = attributes.integer("is_b") != 0;
  expect_divides(op, "experts", experts_of(offsets), factor.shape[is_b ? 1 : 0]);
  const FactorLayout matrix = layout_of(factor.shape, experts_of(offsets), attributes);
  if (is_b && (matrix.first < 0 || matrix.rows < 1 || matrix.first / factor.shape[1] + matrix.rows > factor.shape[0]))
    throw input_error(op, "expected rows of a factor of {}, got {} from row {} on; check the model's sizes",
                      factor.shape[0], matrix.rows, matrix.first / factor.shape[1]);
  return matrix;
}

void expect_rows(std::string_view op, std::string_view what, const ValueType& rows, int64_t width) {
  expect_real(op, what, rows);
  expect_rank(op, what, rows, 2);
  expect_same(op, what, rows, {rows.dtype, {rows.shape[0], width}, rows.axis});
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType& x = *inputs[kX];
  const Sizes sizes = sizes_of(expect_factor(kName, *inputs[kOffsets], *inputs[kFactor], attributes), attributes);
  expect_rows(kName, "x", x, sizes.pairs * sizes.in);
  const ValueType out{x.dtype, {x.shape[0], sizes.pairs * sizes.out}, x.axis};
  if (inputs[kAddend] != nullptr) expect_same(kName, "addend", *inputs[kAddend], out);
  return {out};
}

Sizes sizes_of(TypeList inputs, const Attributes& attributes) {
  return sizes_of(layout_of(inputs[kFactor]->shape, experts_of(*inputs[kOffsets]), attributes), attributes);
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  const ValueType& x = *inputs[kX];
  Cost result = memory_cost(inputs, outputs, attributes);
  result.flops = 2.0 * static_cast<double>(x.shape.elems()) * static_cast<double>(sizes_of(inputs, attributes).out);
  result.matrix_product = true;
  result.in_f32 = x.dtype == DType::kF32 || inputs[kFactor]->dtype == DType::kF32;
  return result;
}

// B's matrices are put together first.
int64_t packed_bytes(const FactorLayout& matrix, int64_t experts, DType dtype) {
  return matrix.column_stride == 1 ? 0 : align_up(experts * matrix.rows * matrix.columns * size_of(dtype), 64);
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  const ValueType &x = *inputs[kX], &factor = *inputs[kFactor];
  const int64_t experts = experts_of(*inputs[kOffsets]);
  const Sizes sizes = sizes_of(inputs, attributes);
  return packed_bytes(layout_of(factor.shape, experts, attributes), experts, factor.dtype) +
         workspace_of_rows(sizes, x.shape, x.dtype, factor.dtype, threads).bytes;
}

int64_t no_workspace(TypeList, TypeList, const Attributes&) { return 0; }

// The factor's shape is attributes of its gradient.
Shape factor_of(const Attributes& attributes) {
  return {attributes.integer("factor_rows"), attributes.integer("factor_columns")};
}

std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  const ValueType &x = *inputs[kGradX], &dy = *inputs[kDy];
  const ValueType out{static_cast<DType>(attributes.integer("dtype")), factor_of(attributes)};
  const FactorLayout matrix = expect_factor(kGradName, *inputs[kGradOffsets], out, attributes);
  const Sizes sizes = sizes_of(matrix, attributes);
  expect_rows(kGradName, "x", x, sizes.pairs * sizes.in);
  expect_rows(kGradName, "dy", dy, sizes.pairs * sizes.out);
  expect_same(kGradName, "dy", dy, {x.dtype, {x.shape[0], dy.shape[1]}, x.axis});
  if (inputs[kGradAddend] != nullptr) {
    expect_real(kGradName, "addend", *inputs[kGradAddend]);
    const bool is_whole = matrix.is_whole(out.shape, experts_of(*inputs[kGradOffsets]));
    expect_same(kGradName, "addend", *inputs[kGradAddend],
                {is_whole ? inputs[kGradAddend]->dtype : out.dtype, out.shape});
  }
  return {out};
}

Cost grad_cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  const ValueType &x = *inputs[kGradX], &dy = *inputs[kDy];
  const auto pairs = static_cast<double>(attributes.integer("pairs"));
  Cost result = memory_cost(inputs, outputs, attributes);
  result.flops = 2.0 * static_cast<double>(x.shape.elems()) * static_cast<double>(dy.shape[1]) / pairs;
  result.matrix_product = true;
  result.in_f32 = x.dtype == DType::kF32;
  return result;
}

int64_t grad_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes& attributes, int threads) {
  const ValueType &x = *inputs[kGradX], &dy = *inputs[kDy];
  const int64_t experts = experts_of(*inputs[kGradOffsets]);
  const FactorLayout matrix = layout_of(outputs[0]->shape, experts, attributes);
  const Sizes sizes{.pairs = attributes.integer("pairs"), .in = matrix.columns, .out = matrix.rows};
  return packed_bytes(matrix, experts, DType::kF32) +
         workspace_over_rows(sizes, x.shape, dy.dtype, x.dtype, threads).bytes;
}

const OpDef kGroupedFactorGrad{.name = "grouped_factor_grad",
                               .infer = infer_grad,
                               .cost = grad_cost,
                               .workspace_bytes = grad_workspace_bytes,
                               .cuda_workspace_bytes = no_workspace,
                               .in_place = {{0, kGradAddend}},
                               .recompute_cost = RecomputeCost::kProduct,
                               .cpu = grouped_factor_grad_cpu,
                               .cuda = grouped_factor_grad_cuda};

void vjp(VjpContext& context);

const OpDef kGroupedFactor{.name = "grouped_factor",
                           .infer = infer,
                           .vjp = vjp,
                           .cost = cost,
                           .workspace_bytes = workspace_bytes,
                           .cuda_workspace_bytes = no_workspace,
                           .in_place = {{0, kAddend}},
                           .recompute_cost = RecomputeCost::kProduct,
                           .cpu = grouped_factor_cpu,
                           .cuda = grouped_factor_cuda};

// y = alpha x M_e': dx = alpha dy M_e, and dM_e = alpha dy' x over the expert's rows.
void vjp(VjpContext& context) {
  Builder& builder = context.builder();
  Attributes attributes = context.attributes();
  SPILLWAY_CHECK(attributes.integer("transposed") != 0, "the gradient of a gradient");
  const ValueId x = context.input(kX), offsets = context.input(kOffsets), dy = context.cotangent(0);
  if (context.wants(kFactor)) {
    const Shape factor = context.input_type(kFactor).shape;
    Attributes of_factor = attributes;
    of_factor.add("factor_rows", factor[0]);
    of_factor.add("factor_columns", factor[1]);
    of_factor.add("dtype", static_cast<int64_t>(context.gradient_dtype(kFactor)));
    const ValueId addend = context.take_addend(kFactor);
    context.add(kFactor, builder.append_one(kGroupedFactorGrad, {x, dy, offsets, addend}, std::move(of_factor)));
  }
  if (context.wants(kX)) {
    attributes.set("transposed", int64_t{0});
    const ValueId addend = context.take_addend(kX);
    context.add(
        kX, builder.append_one(kGroupedFactor, {dy, offsets, addend, context.input(kFactor)}, std::move(attributes)));
  }
  if (context.wants(kAddend)) add_cotangent(context, kAddend, dy);
}

ValueId append(Builder& builder, ValueId x, ValueId offsets, int64_t pairs, ValueId factor, bool is_b,
               const FactorRows& rows, double alpha) {
  return builder.append_one(kGroupedFactor, {x, offsets, kNone, factor},
                            {{"pairs", pairs},
                             {"transposed", int64_t{1}},
                             {"is_b", int64_t{is_b}},
                             {"first_row", rows.first},
                             {"rows", rows.count},
                             {"alpha", alpha}});
}

}  // namespace
}  // namespace grouped_factor_op

ValueId grouped_factor_a(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token, ValueId a) {
  return grouped_factor_op::append(builder, x, offsets, pairs_per_token, a, false, {}, 1);
}

ValueId grouped_factor_b(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token, ValueId b,
                         const FactorRows& rows, double alpha) {
  return grouped_factor_op::append(builder, x, offsets, pairs_per_token, b, true, rows, alpha);
}

}  // namespace spillway::ops
