// Matrices of random numbers, and all ways to multiply, for tests of products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"
#include "ops/matmul/cpu/kernels.h"
#include "ops/matmul/cpu/product.h"
#include "ops/testing/guarded_buffer.h"

namespace spillway::cpu {

using ops::testing::GuardedBuffer;

inline constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

// A stored matrix with rows wider than its columns; the padding between is NaN, so that reading it shows.
class Values {
 public:
  Values(int64_t rows, int64_t columns, DType dtype, uint64_t stream, int64_t padding = 3)
      : dtype_(dtype), stride_(columns + padding), bytes_(static_cast<size_t>(rows * stride_ * size_of(dtype))) {
    RandomStream random(7, stream);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < stride_; ++j) set(i, j, j < columns ? 2 * random.uniform() - 1 : kNoNumber);
    }
  }
  void set(int64_t i, int64_t j, float value) {
    if (dtype_ == DType::kF32) {
      reinterpret_cast<float*>(bytes_.data())[i * stride_ + j] = value;
    } else {
      reinterpret_cast<bf16*>(bytes_.data())[i * stride_ + j] = to_bf16(value);
    }
  }
  [[nodiscard]] double at(int64_t i, int64_t j) const {
    return dtype_ == DType::kF32 ? reinterpret_cast<const float*>(bytes_.data())[i * stride_ + j]
                                 : to_float(reinterpret_cast<const bf16*>(bytes_.data())[i * stride_ + j]);
  }
  [[nodiscard]] Matrix matrix() const { return {bytes_.data(), dtype_, stride_}; }
  [[nodiscard]] void* data() { return bytes_.data(); }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] int64_t stride() const { return stride_; }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  DType dtype_;
  int64_t stride_;
  std::vector<std::byte> bytes_;
};

// A way to multiply.
struct Variant {
  const MatmulKernels* kernels;
  Bf16Path path;
};

// Returns every way in which this CPU can multiply two matrices of these types.
inline std::vector<Variant> variants(DType a, DType b) {
  std::vector<Variant> all;
  for (const MatmulKernels* kernels : supported_matmul_kernels()) {
    all.push_back({kernels, Bf16Path::kWidenToF32});
    const bool pairs = kernels->has_bf16() && a == DType::kBF16 && b == DType::kBF16;
    if (pairs) all.push_back({kernels, Bf16Path::kNativeDot});
  }
  return all;
}

inline constexpr DType kTypes[] = {DType::kF32, DType::kBF16};

}  // namespace spillway::cpu
