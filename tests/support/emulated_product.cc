// Where a GPU's kernel asks cuBLASLt for a product, the emulation asks the CPU's.
#include <vector>

#include "backend/cuda/kernel.cuh"
#include "backend/cuda/product.h"
#include "ops/matmul/cpu/product.h"
#include "ops/real.h"

namespace spillway::cuda {
namespace {

// To what has been rounded, as some of cuBLASLt's kernels do where they accumulate.
void add_bias(const Product& p) {
  ops::with_real(p.out, [&]<typename T>(T*) {
    const T* bias = static_cast<const T*>(p.bias);
    T* row = static_cast<T*>(p.d);
    for (int64_t i = 0; i < p.m; ++i, row += p.n) {
      for (int64_t j = 0; j < p.n; ++j) row[j] = from_float<T>(to_float(row[j]) + to_float(bias[j]));
    }
  });
}

}  // namespace

void multiply(const Product& p, const KernelArgs& args) {
  const bool adds_bias_later = p.accumulate && p.bias;
  const cpu::MatmulShape shape{p.m, p.n, p.k, p.transpose_a, p.transpose_b};
  std::vector<std::byte> memory(
      static_cast<size_t>(cpu::matmul_workspace_bytes(shape, p.in, p.in, args.threads->threads())) + 64);
  std::byte* workspace = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  cpu::matmul({.shape = shape,
               .a = {p.a, p.in, p.transpose_a ? p.m : p.k},
               .b = {p.b, p.in, p.transpose_b ? p.k : p.n},
               .c = p.d,
               .c_dtype = p.out,
               .c_stride = p.n,
               .alpha = p.alpha,
               .addend = p.accumulate ? p.d : nullptr,
               .addend_dtype = p.out,
               .addend_stride = p.n,
               .bias = adds_bias_later ? nullptr : p.bias,
               .bias_dtype = p.out},
              workspace, *args.threads);
  if (adds_bias_later) add_bias(p);
}

}  // namespace spillway::cuda
