// What matmul's kernels agree on with its description.
#pragma once

#include "backend/cpu/matmul.h"
#include "graph/operation.h"

namespace spillway::ops {

[[nodiscard]] cpu::MatmulShape product_shape(const Shape& a, const Shape& b, const Attributes& attributes);

// Scratch of the CUDA kernel: the library's; for operands of two types, the one that is widened to f32; and for an f32
// product with a bf16 result, the result in f32.
struct MatmulCudaWorkspace {
  static constexpr int64_t kAlignment = 256;
  int64_t library_bytes = 0, widened_bytes = 0, result_bytes = 0;
  // With what aligning its parts may take.
  [[nodiscard]] int64_t bytes() const { return library_bytes + widened_bytes + result_bytes + 3 * kAlignment; }
};
[[nodiscard]] MatmulCudaWorkspace matmul_cuda_workspace(const cpu::MatmulShape& shape, DType a, DType b, DType c);

}  // namespace spillway::ops
