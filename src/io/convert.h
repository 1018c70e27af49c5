// Conversion of runs of values between the floating dtypes, and the check that they are finite.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace spillway {

// What files are read and written in, where values are converted on the way: so much fits a core's cache.
constexpr int64_t kConvertedBytes = int64_t{256} << 10;

// Converts `elems` values; `to` may be `from` when the dtypes are of one size. REQUIRES: floating dtypes.
void convert_floats(const void* from, DType from_dtype, void* to, DType to_dtype, int64_t elems);

// The index of the first NaN or infinity, or -1. REQUIRES: a floating dtype.
[[nodiscard]] int64_t find_nonfinite(const void* values, DType dtype, int64_t elems);

[[nodiscard]] inline bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

}  // namespace spillway
