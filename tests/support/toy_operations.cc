#include "tests/support/toy_operations.h"

#include <cmath>

#include "backend/kernel.h"
#include "base/index.h"
#include "graph/autodiff.h"
#include "ops/check.h"

namespace spillway::testing {
namespace {

// The row of x without mean and with a variance of one, into `out`; returns 1 / its deviation.
double normalise(const float* x, int64_t columns, double* out) {
  double mean = 0, square = 0;
  for (int64_t c = 0; c < columns; ++c) mean += static_cast<double>(x[c]) / static_cast<double>(columns);
  for (int64_t c = 0; c < columns; ++c) {
    out[c] = static_cast<double>(x[c]) - mean;
    square += out[c] * out[c] / static_cast<double>(columns);
  }
  const double rstd = 1 / std::sqrt(square + kLayerNormEps);
  for (int64_t c = 0; c < columns; ++c) out[c] *= rstd;
  return rstd;
}

constexpr int64_t kMaxColumns = 64;

void layer_norm_cpu(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const int64_t columns = x.shape[1];
  const auto *w = args.inputs[1].as<float>(), *b = args.inputs[2].as<float>();
  double normal[kMaxColumns];
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    normalise(x.as<float>() + i * columns, columns, normal);
    for (int64_t c = 0; c < columns; ++c)
      args.outputs[0].as<float>()[i * columns + c] =
          static_cast<float>(normal[c] * static_cast<double>(w[c]) + static_cast<double>(b[c]));
  }
}

// Inputs x, w, dy; outputs dx, dw, db.
void layer_norm_grad_cpu(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const int64_t columns = x.shape[1];
  const auto *w = args.inputs[1].as<float>(), *dy = args.inputs[2].as<float>();
  auto *dx = args.outputs[0].as<float>(), *dw = args.outputs[1].as<float>(), *db = args.outputs[2].as<float>();
  double normal[kMaxColumns], weight_sums[kMaxColumns] = {}, bias_sums[kMaxColumns] = {};
  for (int64_t i = 0; i < x.shape[0]; ++i, dy += columns, dx += columns) {
    const double rstd = normalise(x.as<float>() + i * columns, columns, normal);
    double mean = 0, dot = 0;  // of dy * w, and with the normalised row
    for (int64_t c = 0; c < columns; ++c) {
      const double d = static_cast<double>(dy[c]) * static_cast<double>(w[c]) / static_cast<double>(columns);
      mean += d;
      dot += d * normal[c];
      weight_sums[c] += static_cast<double>(dy[c]) * normal[c];
      bias_sums[c] += static_cast<double>(dy[c]);
    }
    for (int64_t c = 0; c < columns; ++c)
      dx[c] =
          static_cast<float>(rstd * (static_cast<double>(dy[c]) * static_cast<double>(w[c]) - mean - normal[c] * dot));
  }
  for (int64_t c = 0; c < columns; ++c) {
    dw[c] = static_cast<float>(weight_sums[c]);
    db[c] = static_cast<float>(bias_sums[c]);
  }
}

std::vector<ValueType> same_as_first(TypeList inputs, const Attributes&) { return {*inputs[0]}; }
std::vector<ValueType> layer_norm_grads(TypeList inputs, const Attributes&) {
  return {*inputs[0], *inputs[1], *inputs[1]};
}

const OpDef kLayerNormGrad{
    .name = "toy_layer_norm_grad", .infer = layer_norm_grads, .cost = ops::memory_cost, .cpu = layer_norm_grad_cpu};

void layer_norm_vjp(VjpContext& context) {
  const std::vector<ValueId> gradients =
      context.builder().append(kLayerNormGrad, {context.input(0), context.input(1), context.cotangent(0)});
  for (const int i : {0, 1, 2}) {
    if (context.wants(i)) context.add(i, nth(gradients, i));
  }
}

const OpDef kLayerNorm{.name = "toy_layer_norm",
                       .infer = same_as_first,
                       .vjp = layer_norm_vjp,
                       .cost = ops::memory_cost,
                       .cpu = layer_norm_cpu};

void softmax_cpu(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const int64_t columns = x.shape[1];
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    const float* from = x.as<float>() + i * columns;
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += std::exp(static_cast<double>(from[c]));
    for (int64_t c = 0; c < columns; ++c)
      args.outputs[0].as<float>()[i * columns + c] = static_cast<float>(std::exp(static_cast<double>(from[c])) / sum);
  }
}

// Inputs y, dy.
void softmax_grad_cpu(const KernelArgs& args) {
  const TensorView& y = args.inputs[0];
  const int64_t columns = y.shape[1];
  for (int64_t i = 0; i < y.shape[0]; ++i) {
    const float *row = y.as<float>() + i * columns, *dy = args.inputs[1].as<float>() + i * columns;
    double dot = 0;
    for (int64_t c = 0; c < columns; ++c) dot += static_cast<double>(row[c]) * static_cast<double>(dy[c]);
    for (int64_t c = 0; c < columns; ++c)
      args.outputs[0].as<float>()[i * columns + c] =
          static_cast<float>(static_cast<double>(row[c]) * (static_cast<double>(dy[c]) - dot));
  }
}

const OpDef kSoftmaxGrad{
    .name = "toy_softmax_grad", .infer = same_as_first, .cost = ops::memory_cost, .cpu = softmax_grad_cpu};

void softmax_vjp(VjpContext& context) {
  if (context.wants(0))
    context.add(0, context.builder().append_one(kSoftmaxGrad, {context.output(0), context.cotangent(0)}));
}

const OpDef kSoftmax{
    .name = "toy_softmax", .infer = same_as_first, .vjp = softmax_vjp, .cost = ops::memory_cost, .cpu = softmax_cpu};

std::vector<ValueType> scalar(TypeList, const Attributes&) { return {{DType::kF32, {1}}}; }

void squared_error_cpu(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  double sum = 0;
  for (int64_t i = 0; i < x.elems(); ++i) {
    const double d = static_cast<double>(x.as<float>()[i]) - static_cast<double>(args.inputs[1].as<float>()[i]);
    sum += d * d;
  }
  *args.outputs[0].as<float>() = static_cast<float>(static_cast<double>(*args.inputs[2].as<float>()) * sum);
}

void squared_error_grad_cpu(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  for (int64_t i = 0; i < x.elems(); ++i)
    args.outputs[0].as<float>()[i] =
        2 * *args.inputs[2].as<float>() * (x.as<float>()[i] - args.inputs[1].as<float>()[i]);
}

const OpDef kSquaredErrorGrad{
    .name = "toy_squared_error_grad", .infer = same_as_first, .cost = ops::memory_cost, .cpu = squared_error_grad_cpu};

void squared_error_vjp(VjpContext& context) {
  if (context.wants(0))
    context.add(
        0, context.builder().append_one(kSquaredErrorGrad, {context.input(0), context.input(1), context.input(2)}));
}

const OpDef kSquaredError{.name = "toy_squared_error",
                          .infer = scalar,
                          .vjp = squared_error_vjp,
                          .cost = ops::memory_cost,
                          .cpu = squared_error_cpu};

}  // namespace

ValueId layer_norm(Builder& builder, ValueId x, ValueId w, ValueId b) {
  SPILLWAY_CHECK(builder.type(x).shape[1] <= kMaxColumns, "{} columns", builder.type(x).shape[1]);
  return builder.append_one(kLayerNorm, {x, w, b});
}

ValueId softmax_rows(Builder& builder, ValueId x) { return builder.append_one(kSoftmax, {x}); }

ValueId squared_error(Builder& builder, ValueId x, ValueId target, ValueId scale) {
  return builder.append_one(kSquaredError, {x, target, scale});
}

}  // namespace spillway::testing
