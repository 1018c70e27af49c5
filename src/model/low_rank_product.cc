#include "model/low_rank_product.h"

#include <cstddef>
#include <memory>

#include "base/sizes.h"
#include "ops/matmul/cpu/product.h"

namespace spillway {

void add_low_rank_product(std::vector<float>& weight, const LowRankFactors& factors, double scale, int64_t rows,
                          ThreadPool& pool) {
  const int64_t in = std::ssize(weight) / rows, r = std::ssize(factors.b) / rows;
  const cpu::MatmulShape shape{rows, in, r, false, false};
  const int64_t bytes = cpu::matmul_workspace_bytes(shape, DType::kF32, DType::kF32, pool.threads());
  auto storage = make_vector<std::byte>(bytes + 64);
  void* workspace = storage.data();
  size_t space = storage.size();
  std::align(64, static_cast<size_t>(bytes), workspace, space);
  cpu::matmul({.shape = shape,
               .a = {factors.b.data(), DType::kF32, r},
               .b = {factors.a.data(), DType::kF32, in},
               .c = weight.data(),
               .c_dtype = DType::kF32,
               .c_stride = in,
               .alpha = static_cast<float>(scale),
               .addend = weight.data(),
               .addend_dtype = DType::kF32,
               .addend_stride = in},
              static_cast<std::byte*>(workspace), pool);
}

}  // namespace spillway
