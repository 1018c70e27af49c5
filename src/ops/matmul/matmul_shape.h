// What matmul's kernels agree on with its description.
#pragma once

#include "backend/cpu/matmul.h"
#include "graph/operation.h"

namespace spillway::ops {

[[nodiscard]] cpu::MatmulShape product_shape(const Shape& a, const Shape& b, const Attributes& attributes);

// Scratch of the CUDA kernel, which is 256-byte aligned: the library's; for operands of two types, the one that is
// widened to f32; and for an f32 product with a bf16 result, the result in f32.
struct MatmulCudaWorkspace {
  int64_t library_bytes = 0;
  int64_t widened = 0, result = 0;  // where they begin
  int64_t bytes = 0;
};
[[nodiscard]] MatmulCudaWorkspace matmul_cuda_workspace(const cpu::MatmulShape& shape, DType a, DType b, DType c);

}  // namespace spillway::ops
