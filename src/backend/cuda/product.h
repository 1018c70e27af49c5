// Matrix products inside another operation's kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/kernel.h"

namespace spillway::cuda {

// Computes D = alpha op(A) op(B) + bias in every row, or adds that to D, all row-major and dense. Sums are f32; f32
// data is not rounded to TF32.
//
// The addend lies in D, never elsewhere: with it elsewhere cuBLASLt has other bits (seen with 13.1 on an H200), and
// whether a value takes another's place is up to the plan, which must not change any.
struct Product {
  int64_t m = 0, n = 0, k = 0;  // all above 0
  bool transpose_a = false, transpose_b = false;
  DType in = DType::kBF16;   // of A and B
  DType out = DType::kBF16;  // of D and bias
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;  // [n]; null: none
  void* d = nullptr;
  bool accumulate = false;  // adds to D; with a bias that is one rounding too many if `out` is bf16
  float alpha = 1;
  std::byte* workspace = nullptr;  // 256-byte aligned
  int64_t workspace_bytes = 0;
};

// Puts a product into the stream of the kernel that got `args`.
void multiply(const Product& product, const KernelArgs& args);

}  // namespace spillway::cuda
