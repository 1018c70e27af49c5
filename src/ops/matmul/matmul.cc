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

// Returns the shape of a product that may have a tail.
cpu::MatmulShape whole_shape(TypeList inputs, const Attributes& attributes) {
  cpu::MatmulShape shape = product_shape(inputs[kA]->shape, inputs[kB]->shape, attributes);
  if (inputs[kTailA] != nullptr) shape.tail = inputs[kTailA]->shape[shape.transpose_a ? 0 : 1];
  return shape;
}

// Returns the shape of the tail as a product of its own.
cpu::MatmulShape tail_shape(const cpu::MatmulShape& whole) {
  cpu::MatmulShape shape = whole;
  shape.k = std::exchange(shape.tail, 0);
  return shape;
}

void expect_tail(std::string_view op, TypeList inputs, const cpu::MatmulShape& shape) {
  if ((inputs[kTailA] == nullptr) != (inputs[kTailB] == nullptr))
    throw input_error(op, "expected both factors of a tail or none, got one; give the other, too");
  if (inputs[kTailA] == nullptr) return;
  expect_rank(op, "a of the tail", *inputs[kTailA], 2);
  const ValueType& a = *inputs[kA];
  const auto stored = [](int64_t rows, int64_t columns, bool transposed) {
    return transposed ? Shape{columns, rows} : Shape{rows, columns};
  };
  expect_same(op, "a of the tail", *inputs[kTailA], {a.dtype, stored(shape.m, shape.tail, shape.transpose_a), a.axis});
  const ValueType b{a.dtype, stored(shape.tail, shape.n, shape.transpose_b), inputs[kB]->axis};
  expect_same(op, "b of the tail", *inputs[kTailB], b);
}

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
  const cpu::MatmulShape shape = whole_shape(inputs, attributes);
  if (b.shape[shape.transpose_b ? 1 : 0] != shape.k) {
    throw input_error(op, "expected {} of a and b to be contracted, got {}{} and {}{}; check the model's sizes",
                      shape.k, to_string(a), shape.transpose_a ? " transposed" : "", to_string(b),
                      shape.transpose_b ? " transposed" : "");
  }
  expect_tokens_fit(op, a, b, shape);
  expect_tail(op, inputs, shape);
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
  const cpu::MatmulShape shape = whole_shape(inputs, attributes);
  result.flops =
      2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k + shape.tail);
  result.matrix_product = true;
  result.in_f32 = inputs[kA]->dtype == DType::kF32 || inputs[kB]->dtype == DType::kF32;
  return result;
}

int64_t product_cuda_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  using namespace matmul_op;
  const cpu::MatmulShape shape = whole_shape(inputs, attributes);
  const auto optional_type = [](const ValueType* type) { return type ? std::optional(type->dtype) : std::nullopt; };
  const DType c = outputs[0]->dtype;
  MatmulTypes types{.a = inputs[kA]->dtype,
                    .b = inputs[kB]->dtype,
                    .c = c,
                    .addend = optional_type(inputs[kAddend]),
                    .bias = optional_type(inputs[kBias])};
  if (shape.tail == 0) return matmul_cuda_workspace(shape, types).bytes;
  const MatmulTypes of_tail{.a = types.a, .b = types.a, .c = c, .addend = types.addend, .bias = {}};
  types.addend = c;  // the tail has been there
  return std::max(matmul_cuda_workspace(tail_shape(shape), of_tail).bytes, matmul_cuda_workspace(shape, types).bytes);
}

int64_t product_workspace_bytes(TypeList inputs, const Attributes& attributes, int threads, bool is_decoded) {
  using namespace matmul_op;
  const auto bytes = is_decoded ? cpu::decoding_matmul_workspace_bytes : cpu::matmul_workspace_bytes;
  return bytes(whole_shape(inputs, attributes), inputs[kA]->dtype, inputs[kB]->dtype, threads);
}

void multiply_cpu(const KernelArgs& args, std::span<const TensorView> inputs, const cpu::Matrix& b) {
  using namespace matmul_op;
  const TensorView &a = inputs[kA], &addend = inputs[kAddend], &bias = inputs[kBias], &c = args.outputs[0];
  const TensorView &tail_a = inputs[kTailA], &tail_b = inputs[kTailB];
  cpu::MatmulShape shape = product_shape(a.shape, inputs[kB].shape, args.attributes);
  if (tail_a.data != nullptr) shape.tail = tail_a.shape[shape.transpose_a ? 0 : 1];
  const auto matrix_of = [](const TensorView& view) {
    return view.data == nullptr ? cpu::Matrix{} : cpu::Matrix{view.data, view.dtype, view.shape[1]};
  };
  cpu::matmul({.shape = shape,
               .a = matrix_of(a),
               .b = b,
               .tail_a = matrix_of(tail_a),
               .tail_b = matrix_of(tail_b),
               .tail_alpha = static_cast<float>(args.attributes.real("tail_alpha")),
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

// Makes a product that is added to the sum of input `i` the tail of the one that has just given this sum. So dx of a
// layer with LoRA is one product [dy | dz] [W; A]. Returns false where it can't be, and for weights that are frozen:
// they may be codes, which make no tail, and the bits are to be those of what these stand for.
bool joins_last_product(VjpContext& context, int i, const ProductTail& product, bool transpose_b) {
  constexpr int64_t kMaxTail = 512;  // columns: all of them are packed at once
  Operation* const last = context.last_of_sum(i);
  if (last == nullptr || last->def->tail_input < 0 || !context.wants(i + 1)) return false;
  const Builder& builder = context.builder();
  const ValueType &a = builder.type(product.a), &b = builder.type(product.b);
  const DType dtype = builder.type(last->inputs[0]).dtype;
  const auto tail = static_cast<size_t>(last->def->tail_input);
  if (last->inputs[tail] != kNone || a.shape[1] > kMaxTail || a.dtype != dtype || b.dtype != dtype) return false;
  Attributes& attributes = last->attributes;
  if (attributes.integer("transpose_a") != 0 || (attributes.integer("transpose_b") != 0) != transpose_b) return false;
  last->inputs[tail] = product.a;
  last->inputs[tail + 1] = product.b;
  attributes.set("tail_alpha", product.alpha);
  return true;
}

// Adds the gradients of factors to inputs `i` and `i + 1`. C = alpha op(A) op(B): if A is not transposed,
// dA = alpha dC op(B)', else dA' = ..., and so on.
void add_factor_gradients(VjpContext& context, int i, double alpha) {
  const Attributes attributes = context.attributes();
  const bool transpose_a = attributes.integer("transpose_a") != 0, transpose_b = attributes.integer("transpose_b") != 0;
  const ValueId a = context.input(i), b = context.input(i + 1), dy = context.cotangent(0);
  const auto add_product = [&](int input, ValueId left, ValueId right, bool transpose_left, bool transpose_right) {
    const MatmulOptions options{.transpose_a = transpose_left,
                                .transpose_b = transpose_right,
                                .alpha = alpha,
                                .addend = context.take_addend(input),
                                .out_dtype = context.gradient_dtype(input)};
    context.add(input, matmul(context.builder(), left, right, options));
  };
  if (context.wants(i)) {
    if (transpose_a) {
      add_product(i, b, dy, transpose_b, true);
    } else if (!joins_last_product(context, i, {.a = dy, .b = b, .alpha = alpha}, !transpose_b)) {
      add_product(i, dy, b, false, !transpose_b);
    }
  }
  if (context.wants(i + 1)) {
    if (transpose_b) {
      add_product(i + 1, dy, a, true, transpose_a);
    } else {
      add_product(i + 1, a, dy, !transpose_a, false);
    }
  }
}

}  // namespace
}  // namespace matmul_op

void add_tail_gradients(VjpContext& context, int tail) {
  if (context.input(tail) == kNone) return;
  matmul_op::add_factor_gradients(context, tail, context.attributes().real("tail_alpha"));
}

namespace matmul_op {
namespace {

// The tail comes first, so that what precedes it finds the gradient of its own input last (joins_last_product).
void vjp(VjpContext& context) {
  const ValueId dy = context.cotangent(0);
  add_tail_gradients(context, kTailA);
  add_factor_gradients(context, kA, context.attributes().real("alpha"));
  if (context.wants(kAddend)) add_cotangent(context, kAddend, dy);
  if (context.wants(kBias)) {
    const ValueId addend = context.take_addend(kBias);
    context.add(kBias, sum_rows(context.builder(), dy, addend, context.gradient_dtype(kBias)));
  }
}

int64_t workspace_bytes(TypeList inputs, TypeList, const Attributes& attributes, int threads) {
  return product_workspace_bytes(inputs, attributes, threads, false);
}

void matmul_cpu(const KernelArgs& args) {
  const TensorView& b = args.inputs[kB];
  multiply_cpu(args, args.inputs, {b.data, b.dtype, b.shape[1]});
}

const OpDef kMatmul{.name = "matmul",
                    .infer = infer,
                    .vjp = vjp,
                    .cost = product_cost,
                    .workspace_bytes = workspace_bytes,
                    .cuda_workspace_bytes = product_cuda_workspace_bytes,
                    .in_place = {{0, kAddend}},
                    .recompute_cost = RecomputeCost::kProduct,
                    .tail_input = kTailA,
                    .cpu = matmul_cpu,
                    .cuda = matmul_cuda};

}  // namespace
}  // namespace matmul_op

ValueId matmul(Builder& builder, ValueId a, ValueId b, const MatmulOptions& options) {
  const DType dtype = options.out_dtype.value_or(builder.type(a).dtype);
  return builder.append_one(matmul_op::kMatmul, {a, b, options.addend, options.bias, options.tail.a, options.tail.b},
                            {{"transpose_a", int64_t{options.transpose_a}},
                             {"transpose_b", int64_t{options.transpose_b}},
                             {"alpha", options.alpha},
                             {"tail_alpha", options.tail.alpha},
                             {"dtype", static_cast<int64_t>(dtype)}});
}

ValueId linear(Builder& builder, ValueId x, ValueId w, const LinearOptions& options) {
  return matmul(builder, x, w,
                {.transpose_b = true,
                 .addend = options.addend,
                 .bias = options.bias,
                 .out_dtype = options.out_dtype,
                 .tail = options.tail});
}

}  // namespace spillway::ops
