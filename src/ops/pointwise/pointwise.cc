#include "ops/pointwise/pointwise.h"

#include <limits>

#include "backend/kernel.h"
#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/check.h"
#include "ops/pointwise/functions.h"
#include "ops/row_sum/row_sum.h"

namespace spillway::ops::pointwise {
namespace pointwise_op {
namespace {

std::vector<ValueType> infer_unary(TypeList inputs, const Attributes&) {
  expect_f32("pointwise", "x", *inputs[0]);
  return {*inputs[0]};
}

std::vector<ValueType> infer_binary(TypeList inputs, const Attributes&) {
  expect_f32("pointwise", "x", *inputs[0]);
  const ValueType &x = *inputs[0], &y = *inputs[1];
  if (y != ValueType{DType::kF32, {1}}) expect_same("pointwise", "y", y, x);
  return {x};
}

// Adds the cotangent of a second operand; if one number stands for all of x's, it gets the sum of theirs.
void add_to_second(VjpContext& context, ValueId cotangent) {
  Builder& b = context.builder();
  const bool is_one_for_all = b.type(cotangent) != context.input_type(1);
  context.add(1, is_one_for_all ? row_sum(b, cotangent) : cotangent);
}

ValueId minus(Builder& builder, ValueId x) { return affine(builder, x, -1); }

void affine_vjp(VjpContext& context) {
  if (context.wants(0))
    context.add(0, affine(context.builder(), context.cotangent(0), context.attributes().real("factor")));
}

void min_with_vjp(VjpContext& context) {
  context.add(
      0, where_below(context.builder(), context.cotangent(0), context.input(0), context.attributes().real("limit")));
}

void max_with_vjp(VjpContext& context) {
  context.add(
      0, where_above(context.builder(), context.cotangent(0), context.input(0), context.attributes().real("limit")));
}

void relu_vjp(VjpContext& context) {
  constexpr double kSmallestAboveZero = std::numeric_limits<float>::denorm_min();
  context.add(0, where_above(context.builder(), context.cotangent(0), context.input(0), kSmallestAboveZero));
}

void exp_vjp(VjpContext& context) { context.add(0, mul(context.builder(), context.cotangent(0), context.output(0))); }

void log_vjp(VjpContext& context) { context.add(0, div(context.builder(), context.cotangent(0), context.input(0))); }

// The slope is sigmoid(x) sigmoid(-x), as 1 - sigmoid(x) has few digits if x is large.
void sigmoid_vjp(VjpContext& context) {
  Builder& b = context.builder();
  const ValueId other = sigmoid(b, minus(b, context.input(0)));
  context.add(0, mul(b, context.cotangent(0), mul(b, context.output(0), other)));
}

void log_sigmoid_vjp(VjpContext& context) {
  Builder& b = context.builder();
  context.add(0, mul(b, context.cotangent(0), sigmoid(b, minus(b, context.input(0)))));
}

// The slope is -e^x / (1 - e^x) = -e^(x - y).
void log1m_exp_vjp(VjpContext& context) {
  Builder& b = context.builder();
  const ValueId ratio = exp(b, sub(b, context.input(0), context.output(0)));
  context.add(0, mul(b, context.cotangent(0), minus(b, ratio)));
}

void square_vjp(VjpContext& context) {
  Builder& b = context.builder();
  context.add(0, affine(b, mul(b, context.cotangent(0), context.input(0)), 2));
}

// The slope is 1 - (y / cap)^2.
void soft_cap_vjp(VjpContext& context) {
  Builder& b = context.builder();
  const double cap = context.attributes().real("cap");
  context.add(0, mul(b, context.cotangent(0), affine(b, square(b, context.output(0)), -1 / (cap * cap), 1)));
}

void sub_vjp(VjpContext& context) {
  if (context.wants(0)) context.add(0, context.cotangent(0));
  if (context.wants(1)) add_to_second(context, minus(context.builder(), context.cotangent(0)));
}

// Returns x times the cotangent; the operation that produces a loss has a cotangent of one, which is absent
// (append_backward).
ValueId times_cotangent(VjpContext& context, ValueId x) {
  const ValueId dy = context.cotangent(0);
  return dy == kNone ? x : mul(context.builder(), dy, x);
}

void mul_vjp(VjpContext& context) {
  if (context.wants(0)) context.add(0, times_cotangent(context, context.input(1)));
  if (context.wants(1)) add_to_second(context, times_cotangent(context, context.input(0)));
}

// The gradient of y is -dy x / y^2, where x / y is the result.
void div_vjp(VjpContext& context) {
  Builder& b = context.builder();
  const ValueId of_x = div(b, context.cotangent(0), context.input(1));
  if (context.wants(0)) context.add(0, of_x);
  if (context.wants(1)) add_to_second(context, minus(b, mul(b, of_x, context.output(0))));
}

void max_vjp(VjpContext& context) {
  Builder& b = context.builder();
  constexpr double kLargestBelowZero = -std::numeric_limits<float>::denorm_min();
  const ValueId difference = sub(b, context.input(0), context.input(1));
  if (context.wants(0)) context.add(0, where_above(b, context.cotangent(0), difference, 0));
  if (context.wants(1)) add_to_second(context, where_below(b, context.cotangent(0), difference, kLargestBelowZero));
}

const OpDef kAffine{.name = "affine",
                    .infer = infer_unary,
                    .vjp = affine_vjp,
                    .cost = memory_cost,
                    .in_place = {{0, 0}},
                    .cpu = run_cpu<Affine>,
                    .cuda = run_cuda<Affine>};

const OpDef kMinWith{.name = "min_with",
                     .infer = infer_unary,
                     .vjp = min_with_vjp,
                     .cost = memory_cost,
                     .in_place = {{0, 0}},
                     .cpu = run_cpu<MinWith>,
                     .cuda = run_cuda<MinWith>};

const OpDef kMaxWith{.name = "max_with",
                     .infer = infer_unary,
                     .vjp = max_with_vjp,
                     .cost = memory_cost,
                     .in_place = {{0, 0}},
                     .cpu = run_cpu<MaxWith>,
                     .cuda = run_cuda<MaxWith>};

const OpDef kRelu{.name = "relu",
                  .infer = infer_unary,
                  .vjp = relu_vjp,
                  .cost = memory_cost,
                  .in_place = {{0, 0}},
                  .cpu = run_cpu<Relu>,
                  .cuda = run_cuda<Relu>};

const OpDef kExp{.name = "exp",
                 .infer = infer_unary,
                 .vjp = exp_vjp,
                 .cost = memory_cost,
                 .in_place = {{0, 0}},
                 .cpu = run_cpu<Exp>,
                 .cuda = run_cuda<Exp>};

const OpDef kLog{.name = "log",
                 .infer = infer_unary,
                 .vjp = log_vjp,
                 .cost = memory_cost,
                 .in_place = {{0, 0}},
                 .cpu = run_cpu<Log>,
                 .cuda = run_cuda<Log>};

const OpDef kSigmoid{.name = "sigmoid",
                     .infer = infer_unary,
                     .vjp = sigmoid_vjp,
                     .cost = memory_cost,
                     .in_place = {{0, 0}},
                     .cpu = run_cpu<Sigmoid>,
                     .cuda = run_cuda<Sigmoid>};

const OpDef kLogSigmoid{.name = "log_sigmoid",
                        .infer = infer_unary,
                        .vjp = log_sigmoid_vjp,
                        .cost = memory_cost,
                        .in_place = {{0, 0}},
                        .cpu = run_cpu<LogSigmoid>,
                        .cuda = run_cuda<LogSigmoid>};

const OpDef kLog1mExp{.name = "log1m_exp",
                      .infer = infer_unary,
                      .vjp = log1m_exp_vjp,
                      .cost = memory_cost,
                      .in_place = {{0, 0}},
                      .cpu = run_cpu<Log1mExp>,
                      .cuda = run_cuda<Log1mExp>};

const OpDef kSquare{.name = "square",
                    .infer = infer_unary,
                    .vjp = square_vjp,
                    .cost = memory_cost,
                    .in_place = {{0, 0}},
                    .cpu = run_cpu<Square>,
                    .cuda = run_cuda<Square>};

const OpDef kSoftCap{.name = "soft_cap",
                     .infer = infer_unary,
                     .vjp = soft_cap_vjp,
                     .cost = memory_cost,
                     .in_place = {{0, 0}},
                     .cpu = run_cpu<SoftCap>,
                     .cuda = run_cuda<SoftCap>};

const OpDef kDetach{.name = "detach",
                    .infer = infer_unary,
                    .stops_gradients = true,
                    .cost = memory_cost,
                    .in_place = {{0, 0}},
                    .cpu = run_cpu<Same>,
                    .cuda = run_cuda<Same>};

const OpDef kSub{.name = "sub",
                 .infer = infer_binary,
                 .vjp = sub_vjp,
                 .cost = memory_cost,
                 .in_place = {{0, 0}, {0, 1}},
                 .cpu = run_cpu<Sub>,
                 .cuda = run_cuda<Sub>};

const OpDef kMul{.name = "mul",
                 .infer = infer_binary,
                 .vjp = mul_vjp,
                 .cost = memory_cost,
                 .in_place = {{0, 0}, {0, 1}},
                 .cpu = run_cpu<Mul>,
                 .cuda = run_cuda<Mul>};

const OpDef kDiv{.name = "div",
                 .infer = infer_binary,
                 .vjp = div_vjp,
                 .cost = memory_cost,
                 .in_place = {{0, 0}, {0, 1}},
                 .cpu = run_cpu<Div>,
                 .cuda = run_cuda<Div>};

const OpDef kMax{.name = "max",
                 .infer = infer_binary,
                 .vjp = max_vjp,
                 .cost = memory_cost,
                 .in_place = {{0, 0}, {0, 1}},
                 .cpu = run_cpu<Max>,
                 .cuda = run_cuda<Max>};

const OpDef kWhereBelow{.name = "where_below",
                        .infer = infer_binary,
                        .cost = memory_cost,
                        .in_place = {{0, 0}, {0, 1}},
                        .cpu = run_cpu<WhereBelow>,
                        .cuda = run_cuda<WhereBelow>};

const OpDef kWhereAbove{.name = "where_above",
                        .infer = infer_binary,
                        .cost = memory_cost,
                        .in_place = {{0, 0}, {0, 1}},
                        .cpu = run_cpu<WhereAbove>,
                        .cuda = run_cuda<WhereAbove>};

}  // namespace
}  // namespace pointwise_op

ValueId affine(Builder& builder, ValueId x, double factor, double constant) {
  return builder.append_one(pointwise_op::kAffine, {x}, {{"factor", factor}, {"constant", constant}});
}
ValueId min_with(Builder& builder, ValueId x, double limit) {
  return builder.append_one(pointwise_op::kMinWith, {x}, {{"limit", limit}});
}
ValueId max_with(Builder& builder, ValueId x, double limit) {
  return builder.append_one(pointwise_op::kMaxWith, {x}, {{"limit", limit}});
}
ValueId relu(Builder& builder, ValueId x) { return builder.append_one(pointwise_op::kRelu, {x}); }
ValueId exp(Builder& builder, ValueId x) { return builder.append_one(pointwise_op::kExp, {x}); }
ValueId log(Builder& builder, ValueId x) { return builder.append_one(pointwise_op::kLog, {x}); }
ValueId sigmoid(Builder& builder, ValueId x) { return builder.append_one(pointwise_op::kSigmoid, {x}); }
ValueId log_sigmoid(Builder& builder, ValueId x) { return builder.append_one(pointwise_op::kLogSigmoid, {x}); }
ValueId log1m_exp(Builder& builder, ValueId x) { return builder.append_one(pointwise_op::kLog1mExp, {x}); }
ValueId square(Builder& builder, ValueId x) { return builder.append_one(pointwise_op::kSquare, {x}); }
ValueId soft_cap(Builder& builder, ValueId x, double cap) {
  return builder.append_one(pointwise_op::kSoftCap, {x}, {{"cap", cap}});
}
ValueId detach(Builder& builder, ValueId x) { return builder.append_one(pointwise_op::kDetach, {x}); }

// Adds one number for all by subtracting it with its sign changed, which is exact.
ValueId add(Builder& builder, ValueId x, ValueId y) {
  if (builder.type(x) == builder.type(y)) return ops::add(builder, x, y);
  return sub(builder, x, pointwise_op::minus(builder, y));
}
ValueId sub(Builder& builder, ValueId x, ValueId y) { return builder.append_one(pointwise_op::kSub, {x, y}); }
ValueId mul(Builder& builder, ValueId x, ValueId y) { return builder.append_one(pointwise_op::kMul, {x, y}); }
ValueId div(Builder& builder, ValueId x, ValueId y) { return builder.append_one(pointwise_op::kDiv, {x, y}); }
ValueId max(Builder& builder, ValueId x, ValueId y) { return builder.append_one(pointwise_op::kMax, {x, y}); }
ValueId where_below(Builder& builder, ValueId x, ValueId y, double limit) {
  return builder.append_one(pointwise_op::kWhereBelow, {x, y}, {{"limit", limit}});
}
ValueId where_above(Builder& builder, ValueId x, ValueId y, double limit) {
  return builder.append_one(pointwise_op::kWhereAbove, {x, y}, {{"limit", limit}});
}

}  // namespace spillway::ops::pointwise
