// The matrix product by cuBLASLt. It moves each operand once and is bound by arithmetic, except where one side is thin.
#include "backend/cuda/convert.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/product.h"
#include "backend/kernel.h"
#include "ops/matmul/matmul_shape.h"

namespace spillway::ops {
namespace {

// C = addend or 0, where nothing is contracted over: tokens, of which there are none. Then there is no bias, either.
void take_addend(const TensorView& c, const TensorView& addend, void* stream) {
  if (addend.data == nullptr) return cuda::zero_bytes(c.data, c.bytes(), stream);
  if (addend.data != c.data) cuda::convert(c.data, c.dtype, addend.data, addend.dtype, c.elems(), stream);
}

}  // namespace

void matmul_cuda(const KernelArgs& args) {
  const TensorView &a = args.inputs[0], &b = args.inputs[1], &addend = args.inputs[2], &bias = args.inputs[3];
  const TensorView& c = args.outputs[0];
  const cpu::MatmulShape shape = product_shape(a.shape, b.shape, args.attributes);
  if (c.elems() == 0) return;
  if (shape.k == 0) return take_addend(c, addend, args.stream);

  const auto optional_type = [](const TensorView& view) {
    return view.data ? std::optional(view.dtype) : std::nullopt;
  };
  const MatmulCudaWorkspace workspace = matmul_cuda_workspace(
      shape, {.a = a.dtype, .b = b.dtype, .c = c.dtype, .addend = optional_type(addend), .bias = optional_type(bias)});
  cuda::Product product{.m = shape.m,
                        .n = shape.n,
                        .k = shape.k,
                        .transpose_a = shape.transpose_a,
                        .transpose_b = shape.transpose_b,
                        .in = a.dtype,
                        .out = workspace.result_type,
                        .a = a.data,
                        .b = b.data,
                        .bias = bias.data,
                        .d = workspace.result > 0 ? args.workspace + workspace.result : c.data,
                        .accumulate = addend.data != nullptr,
                        .alpha = static_cast<float>(args.attributes.real("alpha")),
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
  if (addend.data && addend.data != product.d)
    cuda::convert(product.d, product.out, addend.data, addend.dtype, c.elems(), args.stream);
  if (workspace.bias > 0) {
    std::byte* const converted = args.workspace + workspace.bias;
    cuda::convert(converted, product.out, bias.data, bias.dtype, bias.elems(), args.stream);
    product.bias = converted;
  }
  cuda::multiply(product, args);
  if (product.d != c.data) cuda::convert(c.data, c.dtype, product.d, product.out, c.elems(), args.stream);
}

}  // namespace spillway::ops
