#include "ops/matmul/matmul.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "backend/kernel.h"
#include "base/bytes.h"
#include "base/math.h"
#include "graph/autodiff.h"
#include "ops/cast/cast.h"
#include "ops/check.h"
#include "ops/matmul/cpu/product.h"
#include "ops/matmul/matmul_shape.h"
#include "ops/optional_kernel.h"
#include "ops/sum_rows/sum_rows.h"

namespace spillway::ops {

SPILLWAY_OPTIONAL_KERNEL void matmul_cuda(const KernelArgs& args);

cpu::MatmulShape product_shape(const Shape& a, const Shape& b, const Attributes& attributes) {
  const bool transpose_a = attributes.integer("transpose_a") != 0, transpose_b = attributes.integer("transpose_b") != 0;
  return {.m = a[transpose_a ? 1 : 0],
          .n = b[transpose_b ? 0 : 1],
          .k = a[transpose_a ? 0 : 1],
          .transpose_a = transpose_a,
          .transpose_b = transpose_b};
}

MatmulCudaWorkspace matmul_cuda_workspace(const cpu::MatmulShape& shape, const MatmulTypes& types) {
  // NVIDIA's recommendation for Hopper, if it pays: for products that run for some microseconds at least.
  constexpr double kLargeFlops = 1e9;
  const double flops = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  MatmulCudaWorkspace workspace{.library_bytes = flops >= kLargeFlops ? 32 * kMiB : 4 * kMiB};
  workspace.bytes = workspace.library_bytes;
  const auto take_floats = [&](int64_t count) {
    return std::exchange(workspace.bytes, align_up(workspace.bytes + 4 * count, 256));
  };
  if (types.a != types.b) workspace.widened = take_floats(shape.k * (types.a == DType::kF32 ? shape.n : shape.m));
  const auto all_bf16 = [](std::initializer_list<std::optional<DType>> all) {
    return std::all_of(all.begin(), all.end(), [](std::optional<DType> type) { return type != DType::kF32; });
  };
  // With an addend, some of the library's kernels round before they add the bias (cuBLASLt 13.1).
  const bool adds_two = types.addend && types.bias;
  if (!adds_two && all_bf16({types.a, types.b, types.c, types.addend, types.bias}))
    workspace.result_type = DType::kBF16;
  if (types.c != workspace.result_type) {
    workspace.sums = take_floats(shape.m * shape.n);
  } else if (types.bias && types.bias != workspace.result_type) {
    workspace.bias = take_floats(shape.n);
  }
  return workspace;
}

namespace matmul_op {
namespace {

// Checks the tokens, which may be the rows of a, and then of the result, or the axis over which both are contracted.
void expect_tokens_fit(std::string_view op, const ValueType& a, const ValueType& b, const cpu::MatmulShape& shape) {
  const bool contracted = shape.transpose_a && a.follows_axis();
  const bool allowed = contracted ? b.axis == a.axis && !shape.transpose_b : !b.follows_axis();
  if (!allowed) {
    throw input_error(op, "expected tokens as rows of a or contracted in both, got {}{} and {}{}; transpose one",
                      to_string(a), shape.transpose_a ? " transposed" : "", to_string(b),
                      shape.transpose_b ? " transposed" : "");
  }
}

}  // namespace
}  // namespace matmul_op

std::vector<ValueType> infer_product(std::string_view op, TypeList inputs, const Attributes& attributes) {
  using namespace matmul_op;
  const ValueType &a = *inputs[kA], &b = *inputs[kB];
  expect_real(op, "a", a);
  expect_real(op, "b", b);
  expect_rank(op, "a", a, 2);
  expect_rank(op, "b", b, 2);
  const cpu::MatmulShape shape = product_shape(a.shape, b.shape, attributes);
  if (b.shape[shape.transpose_b ? 1 : 0] != shape.k) {
    throw input_error(op, "expected {} of a and b to be contracted, got {}{} and {}{}; check the model's sizes",
                      shape.k, to_string(a), shape.transpose_a ? " transposed" : "", to_string(b),
                      shape.transpose_b ? " transposed" : "");
  }
  expect_tokens_fit(op, a, b, shape);
  const ValueType out{
      static_cast<DType>(attributes.integer("dtype")), {shape.m, shape.n}, shape.transpose_a ? kNoAxis : a.axis};
  expect_real(op, "the result", out);
  if (inputs[kAddend] != nullptr) {
    expect_real(op, "addend", *inputs[kAddend]);
    expect_same(op, "addend", *inputs[kAddend], {inputs[kAddend]->dtype, out.shape, out.axis});
  }
  if (inputs[kBias] != nullptr) {
    expect_real(op, "bias", *inputs[kBias]);
    expect_same(op, "bias", *inputs[kBias], {inputs[kBias]->dtype, {shape.n}});
    if (shape.transpose_a && a.follows_axis()) {
      throw input_error(op, "expected no bias where tokens are contracted, got {}; add it to what that gives",
                        to_string(*inputs[kBias]));
    }
  }
  return {out};
}

Cost product_cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  using namespace matmul_op;
  Cost result = memory_cost(inputs, outputs, attributes);
  const cpu::MatmulShape shape = product_shape(inputs[kA]->shape, inputs[kB]->shape, attributes);
  result.flops = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  result.matrix_product = true;
  result.in_f32 = inputs[kA]->dtype == DType::kF32 || inputs[kB]->dtype == DType::kF32;
  return result;
}

int64_t product_cuda_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  using namespace matmul_op;
  const cpu::MatmulShape shape = product_shape(inputs[kA]->shape, inputs[kB]->shape, attributes);
  const auto optional_type = [](const ValueType* type) { return type ? std::optional(type->dtype) : std::nullopt; };
  return matmul_cuda_workspace(shape, {.a = inputs[kA]->dtype,
                                       .b = inputs[kB]->dtype,
                                       .c = outputs[0]->dtype,
                                       .addend = optional_type(inputs[kAddend]),
                                       .bias = optional_type(inputs[kBias])})
      .bytes;
}

void multiply_cpu(const KernelArgs& args, const cpu::MatmulShape& shape, const cpu::Matrix& b, const TensorView& addend,
                  const TensorView& bias) {
  using namespace matmul_op;
  const TensorView &a = args.inputs[kA], &c = args.outputs[0];
  cpu::matmul({.shape = shape,
               .a = {a.data, a.dtype, a.shape[1]},
               .b = b,
               .c = c.data,
               .c_dtype = c.dtype,
               .c_stride = c.shape[1],
               .alpha = static_cast<float>(args.attributes.real("alpha")),
               .addend = addend.data,
               .addend_dtype = addend.dtype,
               .addend_stride = c.shape[1],
               .bias = bias.data,
               .bias_dtype = bias.dtype},
              args.workspace, *args.threads);
}

namespace matmul_op {
namespace {

std::vector<ValueType> infer(TypeList inputs, const Attributes& attributes) {
  return infer_product("matmul", inputs, attributes);
}

// C = alpha op(A) op(B) + bias + addend. If A is not transposed, dA = alpha dC op(B)', else dA' = ..., and so on.
void vjp(VjpContext& context) {
  Builder& builder = context.builder();
  const Attributes attributes = context.attributes();
  const bool transpose_a = attributes.integer("transpose_a") != 0, transpose_b = attributes.integer("transpose_b") != 0;
  const ValueId a = context.input(kA), b = context.input(kB), dy = context.cotangent(0);
  const auto add_product = [&](int i, ValueId left, ValueId right, bool transpose_left, bool transpose_right) {
    const MatmulOptions options{.transpose_a = transpose_left,
                                .transpose_b = transpose_right,
                                .alpha = attributes.real("alpha"),
                                .addend = context.take_addend(i),
                                .out_dtype = context.gradient_dtype(i)};
    context.add(i, matmul(builder, left, right, options));
  };
  if (context.wants(kA)) {
    if (transpose_a) {
      add_product(kA, b, dy, transpose_b, true);
    } else {
      add_product(kA, dy, b, false, !transpose_b);
    }
  }
  if (context.wants(kB)) {
    if (transpose_b) {
      add_product(kB, dy, a, true, transpose_a);
    } else {
      add_product(kB, a, dy, !transpose_a, false);
    }
  }
  if (context.wants(kAddend)) add_cotangent(context, kAddend, dy);
  if (context.wants(kBias)) {
    const ValueId addend = context.take_addend(kBias);
    context.add(kBias, sum_rows(builder, dy, addend, context.gradient_dtype(kBias)));
  }
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  const cpu::MatmulShape shape = product_shape(inputs[kA]->shape, inputs[kB]->shape, attributes);
  return cpu::matmul_workspace_bytes(shape, inputs[kA]->dtype, inputs[kB]->dtype, threads);
}

void matmul_cpu(const KernelArgs& args) {
  const TensorView &a = args.inputs[kA], &b = args.inputs[kB];
  multiply_cpu(args, product_shape(a.shape, b.shape, args.attributes), {b.data, b.dtype, b.shape[1]},
               args.inputs[kAddend], args.inputs[kBias]);
}

const OpDef kMatmul{.name = "matmul",
                    .infer = infer,
                    .vjp = vjp,
                    .cost = product_cost,
                    .workspace_bytes = workspace_bytes,
                    .cuda_workspace_bytes = product_cuda_workspace_bytes,
                    .in_place = {{0, kAddend}},
                    .recompute_cost = RecomputeCost::kProduct,
                    .cpu = matmul_cpu,
                    .cuda = matmul_cuda};

}  // namespace
}  // namespace matmul_op

ValueId matmul(Builder& builder, ValueId a, ValueId b, const MatmulOptions& options) {
  const DType dtype = options.out_dtype.value_or(builder.type(a).dtype);
  return builder.append_one(matmul_op::kMatmul, {a, b, options.addend, options.bias},
                            {{"transpose_a", int64_t{options.transpose_a}},
                             {"transpose_b", int64_t{options.transpose_b}},
                             {"alpha", options.alpha},
                             {"dtype", static_cast<int64_t>(dtype)}});
}

ValueId linear(Builder& builder, ValueId x, ValueId w, const LinearOptions& options) {
  return matmul(builder, x, w,
                {.transpose_b = true, .addend = options.addend, .bias = options.bias, .out_dtype = options.out_dtype});
}

}  // namespace spillway::ops
