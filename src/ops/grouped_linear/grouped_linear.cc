#include "ops/grouped_linear/grouped_linear.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/grouped_linear/operands.h"
#include "ops/optional_kernel.h"

namespace spillway::ops {

void grouped_linear_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void grouped_linear_cuda(const KernelArgs& args);
void grouped_linear_grad_cpu(const KernelArgs& args);
SPILLWAY_OPTIONAL_KERNEL void grouped_linear_grad_cuda(const KernelArgs& args);

namespace grouped_linear_op {

Sizes sizes_of(const Shape& x, const Shape& weight, const Attributes& attributes) {
  const bool transposed = attributes.integer("transposed") != 0;
  const int64_t pairs = attributes.integer("pairs");
  return {.pairs = pairs,
          .in = x[1] / pairs,
          .out = weight[transposed ? 0 : 1],
          .first = attributes.integer("first_expert"),
          .transposed = transposed};
}

namespace {

constexpr std::string_view kName = "grouped_linear", kGradName = "grouped_linear_grad";

// Returns the number of experts.
int64_t expect_offsets(std::string_view op, const ValueType& offsets) {
  expect_rank(op, "offsets", offsets, 1);
  expect_same(op, "offsets", offsets, {DType::kI32, offsets.shape});
  return offsets.shape[0] - 1;
}

void expect_rows(std::string_view op, std::string_view what, const ValueType& rows, int64_t pairs) {
  expect_real(op, what, rows);
  expect_rank(op, what, rows, 2);
  expect_divides(op, "rows of a token", pairs, rows.shape[1]);
}

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  const ValueType& weight = *inputs[kFirstWeight];
  expect_real(kName, "weight", weight);
  expect_rank(kName, "weight", weight, 2);
  for (size_t i = kFirstWeight; i < inputs.size(); ++i) expect_same(kName, "weight", *inputs[i], weight);
  return {infer_rows(kName, inputs, weight, std::ssize(inputs) - kFirstWeight, attributes)};
}

Cost cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  return cost_of_rows(inputs, outputs, *inputs[kFirstWeight], std::ssize(inputs) - kFirstWeight, attributes);
}

std::optional<Guard> guard(TypeList inputs, const Attributes& attributes, int input) {
  if (input < kFirstWeight) return std::nullopt;
  return guard_of_expert(inputs, attributes, input - kFirstWeight);
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  const ValueType &x = *inputs[kX], &weight = *inputs[kFirstWeight];
  const Sizes sizes = sizes_of(x.shape, weight.shape, attributes);
  return workspace_of_rows(sizes, x.shape, x.dtype, weight.dtype, threads).bytes;
}

int64_t no_workspace(TypeList, TypeList, const Attributes&) { return 0; }

std::vector<ValueType> infer_grad(TypeList inputs, const Attributes& attributes) {
  const ValueType &x = *inputs[kGradX], &dy = *inputs[kDy];
  const int64_t pairs = attributes.integer("pairs");
  expect_rows(kGradName, "x", x, pairs);
  expect_rows(kGradName, "dy", dy, pairs);
  expect_same(kGradName, "dy", dy, {x.dtype, {x.shape[0], dy.shape[1]}, x.axis});
  (void)expect_offsets(kGradName, *inputs[kGradOffsets]);
  const ValueType out{static_cast<DType>(attributes.integer("dtype")), {dy.shape[1] / pairs, x.shape[1] / pairs}};
  expect_real(kGradName, "the gradient", out);
  if (inputs[kGradAddend] != nullptr) {
    expect_real(kGradName, "addend", *inputs[kGradAddend]);
    expect_same(kGradName, "addend", *inputs[kGradAddend], {inputs[kGradAddend]->dtype, out.shape});
  }
  return {out};
}

// Returns the cost of an expert that has its share of the rows.
Cost grad_cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  const ValueType &x = *inputs[kGradX], &dy = *inputs[kDy];
  const auto pairs = static_cast<double>(attributes.integer("pairs"));
  const double share = 1 / static_cast<double>(inputs[kGradOffsets]->shape[0] - 1);
  Cost result = memory_cost(inputs.subspan(kGradOffsets), outputs, attributes);
  result.bytes += share * static_cast<double>(x.bytes() + dy.bytes());
  result.flops = 2.0 * share * static_cast<double>(x.shape.elems()) * static_cast<double>(dy.shape[1]) / pairs;
  result.matrix_product = true;
  result.in_f32 = x.dtype == DType::kF32 || dy.dtype == DType::kF32;
  return result;
}

int64_t grad_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes& attributes, int threads) {
  const ValueType &x = *inputs[kGradX], &dy = *inputs[kDy];
  const Shape& weight = outputs[0]->shape;
  const Sizes sizes{.in = weight[1], .out = weight[0]};
  return cpu::matmul_workspace_bytes(product_over_rows(sizes, x.shape[0] * attributes.integer("pairs")), dy.dtype,
                                     x.dtype, threads);
}

const OpDef kGroupedLinearGrad{.name = "grouped_linear_grad",
                               .infer = infer_grad,
                               .cost = grad_cost,
                               .workspace_bytes = grad_workspace_bytes,
                               .cuda_workspace_bytes = no_workspace,
                               .in_place = {{0, kGradAddend}},
                               .recompute_cost = RecomputeCost::kProduct,
                               .cpu = grouped_linear_grad_cpu,
                               .cuda = grouped_linear_grad_cuda};

void vjp(VjpContext& context);

const OpDef kGroupedLinear{.name = kName,
                           .infer = infer,
                           .vjp = vjp,
                           .cost = cost,
                           .workspace_bytes = workspace_bytes,
                           .cuda_workspace_bytes = no_workspace,
                           .in_place = {{0, kAddend}},
                           .recompute_cost = RecomputeCost::kProduct,
                           .guard = guard,
                           .cpu = grouped_linear_cpu,
                           .cuda = grouped_linear_cuda};

ValueId append_product(Builder& builder, ValueId x, ValueId offsets, std::span<const ValueId> weights,
                       const Sizes& sizes, ValueId addend) {
  std::vector<ValueId> inputs = {x, offsets, addend};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  return builder.append_one(
      kGroupedLinear, std::move(inputs),
      {{"pairs", sizes.pairs}, {"first_expert", sizes.first}, {"transposed", int64_t{sizes.transposed}}});
}

// An expert's weight gets its gradient by an operation of its own, as it gets an update of its own: dY' X of weights
// [O, I], X' dY of others.
void vjp(VjpContext& context) {
  Builder& builder = context.builder();
  const ValueId x = context.input(kX), offsets = context.input(kOffsets), dy = context.cotangent(0);
  Sizes sizes = sizes_of(builder.type(x).shape, context.input_type(kFirstWeight).shape, context.attributes());
  std::vector<ValueId> weights;
  for (int i = kFirstWeight; i < context.inputs(); ++i) weights.push_back(context.input(i));
  if (context.wants(kX)) {
    Sizes back = sizes;
    back.transposed = !sizes.transposed;
    const ValueId addend = context.take_addend(kX);
    context.add(kX, append_product(builder, dy, offsets, weights, back, addend));
  }
  for (int i = kFirstWeight; i < context.inputs(); ++i) {
    if (!context.wants(i)) continue;
    const ValueId addend = context.take_addend(i);
    const auto [columns, rows] = sizes.transposed ? std::pair(x, dy) : std::pair(dy, x);
    context.add(i, builder.append_one(kGroupedLinearGrad, {columns, rows, offsets, addend},
                                      {{"pairs", sizes.pairs},
                                       {"first_expert", sizes.first + i - kFirstWeight},
                                       {"dtype", static_cast<int64_t>(context.gradient_dtype(i))}}));
  }
  if (context.wants(kAddend)) add_cotangent(context, kAddend, dy);
}

}  // namespace

ValueType infer_rows(std::string_view op, TypeList inputs, const ValueType& weight, int64_t experts,
                     const Attributes& attributes) {
  const ValueType& x = *inputs[kX];
  expect_rows(op, "x", x, attributes.integer("pairs"));
  const Sizes sizes = sizes_of(x.shape, weight.shape, attributes);
  const Shape stored = sizes.transposed ? Shape{sizes.out, sizes.in} : Shape{sizes.in, sizes.out};
  expect_same(op, "weight", weight, {weight.dtype, stored});
  const int64_t all = expect_offsets(op, *inputs[kOffsets]);
  if (sizes.first < 0 || sizes.first + experts > all)
    throw input_error(op, "expected weights of {} experts, got those of {} to {}; check the model's sizes", all,
                      sizes.first, sizes.first + experts - 1);
  const ValueType out{x.dtype, {x.shape[0], sizes.pairs * sizes.out}, x.axis};
  if (inputs[kAddend] != nullptr) expect_same(op, "addend", *inputs[kAddend], out);
  return out;
}

Guard guard_of_expert(TypeList inputs, const Attributes& attributes, int64_t expert) {
  const auto experts = static_cast<double>(inputs[kOffsets]->shape[0] - 1);
  const double missed_by_token = 1 - static_cast<double>(attributes.integer("pairs")) / experts;
  return {.offsets = kOffsets,
          .index = static_cast<int32_t>(attributes.integer("first_expert") + expert),
          .chance = 1 - std::pow(std::max(0.0, missed_by_token), static_cast<double>(inputs[kX]->shape[0]))};
}

// Takes each expert for one that has its share of the rows, its weights for read as often as tokens that choose at
// random reach it, and the result for one that takes the addend's place: then other rows are not touched.
Cost cost_of_rows(TypeList inputs, TypeList outputs, const ValueType& weight, int64_t experts,
                  const Attributes& attributes) {
  const ValueType& x = *inputs[kX];
  const double share = static_cast<double>(experts) / static_cast<double>(inputs[kOffsets]->shape[0] - 1);
  const Sizes sizes = sizes_of(x.shape, weight.shape, attributes);
  Cost result = memory_cost(inputs.subspan(kFirstWeight), {}, attributes);
  result.bytes *= guard_of_expert(inputs, attributes, 0).chance;
  const auto out_bytes = static_cast<double>(outputs[0]->bytes());
  result.bytes += share * static_cast<double>(x.bytes()) + (inputs[kAddend] ? 2 * share * out_bytes : out_bytes);
  result.flops = 2.0 * share * static_cast<double>(x.shape.elems()) * static_cast<double>(sizes.out);
  result.matrix_product = true;
  result.in_f32 = x.dtype == DType::kF32 || weight.dtype == DType::kF32;
  return result;
}

}  // namespace grouped_linear_op

ValueId grouped_linear(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token,
                       std::span<const ValueId> weights, const GroupedLinearOptions& options) {
  SPILLWAY_CHECK(!weights.empty(), "a product with no expert");
  return grouped_linear_op::append_product(
      builder, x, offsets, weights,
      {.pairs = pairs_per_token, .first = options.first_expert, .transposed = !options.are_in_by_out}, options.addend);
}

}  // namespace spillway::ops
