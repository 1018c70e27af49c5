// The matrix product by cuBLASLt. It moves each operand once and is bound by arithmetic, except where one side is thin.
#include "backend/cuda/convert.h"
#include "backend/cuda/map.cuh"
#include "backend/cuda/product.h"
#include "backend/kernel.h"
#include "ops/matmul/matmul_shape.h"

namespace spillway::ops {
namespace {

using namespace matmul_op;

// Sets C = addend or 0, if the product contracts over tokens, of which there are none. Then there is no bias, either.
void take_addend(const TensorView& c, const TensorView& addend, void* stream) {
  if (addend.data == nullptr) return cuda::zero_bytes(c.data, c.bytes(), stream);
  if (addend.data != c.data) cuda::convert(c.data, c.dtype, addend.data, addend.dtype, c.elems(), stream);
}

// Computes C = sums + addend + bias, rounded once. Bound by memory.
template <typename Addend, typename Bias>
struct FinishSums {
  static constexpr int kWidth = cuda::kVector<bf16>;
  const float* sums;
  const Addend* addend;  // null: none
  const Bias* bias;      // [columns]; null: none
  bf16* c;
  int64_t columns;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    auto values = cuda::load(sums, span);
    if (addend != nullptr) {
      const auto added = cuda::load(addend, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i] += added[i];
    }
    if (bias != nullptr) {
      int64_t column = span.begin % columns;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        values[i] += to_float(bias[column]);
        if (++column == columns) column = 0;
      }
    }
    cuda::store(values, c, span);
  }
};

template <typename Addend, typename Bias>
void finish_sums(const float* sums, const TensorView& addend, const TensorView& bias, const TensorView& c,
                 void* stream) {
  cuda::map(c.elems(), FinishSums<Addend, Bias>{sums, addend.as<Addend>(), bias.as<Bias>(), c.as<bf16>(), c.shape[1]},
            stream);
}

void finish_sums(const float* sums, const TensorView& addend, const TensorView& bias, const TensorView& c,
                 void* stream) {
  const auto with_addend = [&]<typename Addend>(Addend) {
    if (bias.dtype == DType::kBF16) return finish_sums<Addend, bf16>(sums, addend, bias, c, stream);
    finish_sums<Addend, float>(sums, addend, bias, c, stream);
  };
  if (addend.dtype == DType::kBF16) return with_addend(bf16{});
  with_addend(float{});
}

// Computes C = alpha op(A) op(B) + addend + bias.
void multiply(const KernelArgs& args, const TensorView& a, const TensorView& b, double alpha, const TensorView& addend,
              const TensorView& bias) {
  const TensorView& c = args.outputs[0];
  const cpu::MatmulShape shape = product_shape(a.shape, b.shape, args.attributes);
  if (c.elems() == 0) return;
  if (shape.k == 0) return take_addend(c, addend, args.stream);

  const auto optional_type = [](const TensorView& view) {
    return view.data ? std::optional(view.dtype) : std::nullopt;
  };
  const MatmulCudaWorkspace workspace = matmul_cuda_workspace(
      shape, {.a = a.dtype, .b = b.dtype, .c = c.dtype, .addend = optional_type(addend), .bias = optional_type(bias)});
  const bool is_finished_here = workspace.sums > 0;
  cuda::Product product{.m = shape.m,
                        .n = shape.n,
                        .k = shape.k,
                        .transpose_a = shape.transpose_a,
                        .transpose_b = shape.transpose_b,
                        .in = a.dtype,
                        .out = workspace.result_type,
                        .a = a.data,
                        .b = b.data,
                        .d = is_finished_here ? args.workspace + workspace.sums : c.data,
                        .alpha = static_cast<float>(alpha),
                        .workspace = args.workspace,
                        .workspace_bytes = workspace.library_bytes};
  // The library multiplies operands of one type only. bf16 is exact in f32.
  if (a.dtype != b.dtype) {
    std::byte* const widened = args.workspace + workspace.widened;
    const TensorView& narrow = a.dtype == DType::kBF16 ? a : b;
    cuda::convert(widened, DType::kF32, narrow.data, narrow.dtype, narrow.elems(), args.stream);
    (a.dtype == DType::kBF16 ? product.a : product.b) = widened;
    product.in = DType::kF32;
  }
  if (is_finished_here) {
    cuda::multiply(product, args);
    return finish_sums(static_cast<const float*>(product.d), addend, bias, c, args.stream);
  }
  if (addend.data != nullptr) {
    take_addend(c, addend, args.stream);
    product.accumulate = true;
  }
  product.bias = bias.data;
  if (workspace.bias > 0) {
    std::byte* const converted = args.workspace + workspace.bias;
    cuda::convert(converted, product.out, bias.data, bias.dtype, bias.elems(), args.stream);
    product.bias = converted;
  }
  cuda::multiply(product, args);
}

}  // namespace

void matmul_cuda(const KernelArgs& args) {
  const auto& inputs = args.inputs;
  const double alpha = args.attributes.real("alpha");
  const TensorView& tail = inputs[kTailA];
  if (tail.data == nullptr) return multiply(args, inputs[kA], inputs[kB], alpha, inputs[kAddend], inputs[kBias]);
  multiply(args, tail, inputs[kTailB], args.attributes.real("tail_alpha"), inputs[kAddend], {});
  multiply(args, inputs[kA], inputs[kB], alpha, args.outputs[0], inputs[kBias]);
}

}  // namespace spillway::ops
