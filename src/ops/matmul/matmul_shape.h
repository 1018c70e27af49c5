// Definitions shared by matmul's kernels and its description, and by other operations that are products with it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/kernel.h"
#include "graph/operation.h"
#include "ops/matmul/cpu/product.h"

namespace spillway::ops {

// The inputs of matmul; all but the factors may be absent.
namespace matmul_op {
enum Input : int { kA, kB, kAddend, kBias, kTailA, kTailB, kInputs };
}

// Returns the shape of a product, without its tail.
[[nodiscard]] cpu::MatmulShape product_shape(const Shape& a, const Shape& b, const Attributes& attributes);

// Return the result's type, its cost and the scratch of the kernels, for matmul's inputs (null if absent) and its
// attributes. The first throws InputError "[op] ...".
[[nodiscard]] std::vector<ValueType> infer_product(std::string_view op, TypeList inputs, const Attributes& attributes);
[[nodiscard]] Cost product_cost(TypeList inputs, TypeList outputs, const Attributes& attributes);
[[nodiscard]] int64_t product_cuda_workspace_bytes(TypeList inputs, TypeList outputs, const Attributes& attributes);
[[nodiscard]] int64_t product_workspace_bytes(TypeList inputs, const Attributes& attributes, int threads,
                                              bool is_decoded);

// Computes the CPU's product of matmul's `inputs`, with b that may be one that is decoded; only the shape is read of
// the input kB then. What is absent has no data.
void multiply_cpu(const KernelArgs& args, std::span<const TensorView> inputs, const cpu::Matrix& b);

// Adds the gradients of a tail's factors, inputs `tail` and `tail` + 1 of an operation with matmul's attributes.
void add_tail_gradients(VjpContext& context, int tail);

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
