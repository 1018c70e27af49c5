// Where a GPU's kernel asks cuBLASLt for a product, the emulation asks the CPU's.
#include <vector>

#include "backend/cpu/matmul.h"
#include "backend/cuda/product.h"

namespace spillway::cuda {

void multiply(const Product& p, const KernelArgs& args) {
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
               .bias = p.bias,
               .bias_dtype = p.out},
              workspace, *args.threads);
}

}  // namespace spillway::cuda
