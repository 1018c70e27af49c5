// Definitions shared by matmul's kernels and its description, and by other operations that are products with it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "backend/kernel.h"
#include "graph/operation.h"
#include "ops/matmul/cpu/product.h"

namespace spillway::ops {

// The inputs of matmul; the addend and the bias may be absent.
namespace matmul_op {
enum Input : int { kA, kB, kAddend, kBias };
}

[[nodiscard]] cpu::MatmulShape product_shape(const Shape& a, const Shape& b, const Attributes& attributes);

// Return the result's type, its cost and the scratch of matmul_cuda(), for a, b, addend and bias (null if absent) and
// matmul's attributes. The first throws InputError "[op] ...".
[[nodiscard]] std::vector<ValueType> infer_product(std::string_view op, TypeList inputs, const Attributes& attributes);
[[nodiscard]] Cost product_cost(TypeList inputs, TypeList outputs, const Attributes& attributes);
[[nodiscard]] int64_t product_cuda_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes& attributes);

// Computes the CPU's product of the first input with b, which may be one that is decoded. `addend` and `bias` have no
// data if absent.
void multiply_cpu(const KernelArgs& args, const cpu::MatmulShape& shape, const cpu::Matrix& b, const TensorView& addend,
                  const TensorView& bias);

// The types of the operands that are present, and of the result.
struct MatmulTypes {
  DType a, b, c;
  std::optional<DType> addend, bias;
};

// The scratch of the CUDA kernel, which is 256-byte aligned: the library's; for factors of two types, the one that is
// widened to f32; if C is bf16 and the library does not round it, the product in f32, to which a kernel of ours adds
// the rest; and a bias of another type than the library's result.
struct MatmulCudaWorkspace {
  // The library's type: f32, so that one rounding is left, unless everything is bf16 and not both of addend and bias
  // are there.
  DType result_type = DType::kF32;
  int64_t library_bytes = 0;
  int64_t widened = 0, sums = 0, bias = 0;  // where they begin; 0: not needed
  int64_t bytes = 0;
};
[[nodiscard]] MatmulCudaWorkspace matmul_cuda_workspace(const cpu::MatmulShape& shape, const MatmulTypes& types);

}  // namespace spillway::ops
