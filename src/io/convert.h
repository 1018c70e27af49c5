// Converts runs of values between the floating dtypes, and checks that they are finite.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "tensor/dtype.h"
#include "tensor/view.h"

namespace spillway {

// The size of pieces in which files are read and written if values are converted on the way: it fits a core's cache.
constexpr int64_t kConvertedBytes = int64_t{256} << 10;

// Converts `elems` values; `to` may be `from` when the dtypes are of one size. REQUIRES: floating dtypes.
void convert_floats(const void* from, DType from_dtype, void* to, DType to_dtype, int64_t elems);

// Rounds f32 values to those that `dtype` can hold. REQUIRES: a floating dtype.
void round_to(DType dtype, std::span<float> values);

// Receives a piece of a tensor, some converted elements at a time, in their order. `first_elem` is the index of the
// first of them; for_each_f32() and the others get that of the piece's first element. The memory of `values` is
// separate, and valid during the call. REQUIRES: floating dtypes.
using FloatVisitor = std::function<void(std::span<float> values, int64_t first_elem)>;
// Calls `use` with the elements in f32.
void for_each_f32(const TensorView& piece, int64_t first_elem, const FloatVisitor& use);
// Calls `fill` for the elements in f32, and rounds them to the piece's dtype.
void fill_from_f32(const TensorView& piece, int64_t first_elem, const FloatVisitor& fill);
// Calls `use` with the elements in another dtype.
void for_each_rounded(const TensorView& piece, int64_t first_elem, DType dtype,
                      const std::function<void(const TensorView& rounded, int64_t first_elem)>& use);

// Returns the index of the first NaN or infinity, or -1. REQUIRES: a floating dtype.
[[nodiscard]] int64_t find_nonfinite(const void* values, DType dtype, int64_t elems);

[[nodiscard]] inline bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

}  // namespace spillway
