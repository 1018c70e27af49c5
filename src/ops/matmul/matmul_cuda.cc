// The matrix product by cuBLASLt. It moves each operand once and is bound by arithmetic, except where one side is thin.
#include "backend/cuda/check.h"
#include "backend/cuda/convert.h"
#include "backend/cuda/product.h"
#include "backend/kernel.h"
#include "base/math.h"
#include "ops/matmul/matmul_shape.h"

namespace spillway::ops {
namespace {

// C = addend or 0, where nothing is contracted over.
void take_addend(const TensorView& c, const TensorView& addend, cudaStream_t stream) {
  if (addend.data) {
    if (addend.data != c.data) cuda::convert(c.data, c.dtype, addend.data, addend.dtype, c.elems(), stream);
  } else {
    cuda::check(cudaMemsetAsync(c.data, 0, static_cast<size_t>(c.bytes()), stream), "to clear memory on the GPU");
  }
}

}  // namespace

void matmul_cuda(const KernelArgs& args) {
  const TensorView &a = args.inputs[0], &b = args.inputs[1], &addend = args.inputs[2], &c = args.outputs[0];
  const cpu::MatmulShape shape = product_shape(a.shape, b.shape, args.attributes);
  auto* const stream = static_cast<cudaStream_t>(args.stream);
  if (c.elems() == 0) return;
  if (shape.k == 0) return take_addend(c, addend, stream);

  const MatmulCudaWorkspace workspace = matmul_cuda_workspace(shape, a.dtype, b.dtype, c.dtype);
  cuda::Product product{.m = shape.m,
                        .n = shape.n,
                        .k = shape.k,
                        .transpose_a = shape.transpose_a,
                        .transpose_b = shape.transpose_b,
                        .in = a.dtype,
                        .out = c.dtype,
                        .a = a.data,
                        .b = b.data,
                        .c = addend.data,
                        .d = c.data,
                        .alpha = static_cast<float>(args.attributes.real("alpha")),
                        .workspace = args.workspace,
                        .workspace_bytes = workspace.library_bytes};
  // The library multiplies operands of one type only. bf16 is exact in f32.
  if (a.dtype != b.dtype) {
    std::byte* const widened = args.workspace + workspace.widened;
    const TensorView& narrow = a.dtype == DType::kBF16 ? a : b;
    cuda::convert(widened, DType::kF32, narrow.data, narrow.dtype, narrow.elems(), stream);
    (a.dtype == DType::kBF16 ? product.a : product.b) = widened;
    product.in = DType::kF32;
  }
  // The result of f32 operands is f32, and what is added has the result's type.
  if (workspace.result > 0) {
    product.d = args.workspace + workspace.result;
    product.out = DType::kF32;
  }
  if (addend.data && addend.dtype != product.out) {
    cuda::convert(product.d, product.out, addend.data, addend.dtype, c.elems(), stream);
    product.c = product.d;
  }
  cuda::multiply(product, args);
  if (product.d != c.data) cuda::convert(c.data, c.dtype, product.d, product.out, c.elems(), stream);
}

}  // namespace spillway::ops
