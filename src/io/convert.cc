#include "io/convert.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace spillway {
namespace {

template <typename To>
To from_float(float value) {
  if constexpr (std::is_same_v<To, float>) return value;
  if constexpr (std::is_same_v<To, bf16>) return to_bf16(value);
  if constexpr (std::is_same_v<To, f16>) return to_f16(value);
}

template <typename From, typename To>
void convert(const void* from, void* to, int64_t elems) {
  const From* source = static_cast<const From*>(from);
  To* target = static_cast<To*>(to);
  for (int64_t i = 0; i < elems; ++i) target[i] = from_float<To>(to_float(source[i]));
}

template <typename From>
void convert_from(const void* from, void* to, DType to_dtype, int64_t elems) {
  switch (to_dtype) {
    case DType::kF32:
      return convert<From, float>(from, to, elems);
    case DType::kBF16:
      return convert<From, bf16>(from, to, elems);
    case DType::kF16:
      return convert<From, f16>(from, to, elems);
    default:
      SPILLWAY_CHECK(false, "{} is not floating", name_of(to_dtype));
  }
}

// All of a nonfinite value's exponent bits are set.
template <typename Bits>
int64_t find_exponent(const void* values, Bits mask, int64_t elems) {
  const Bits* bits = static_cast<const Bits*>(values);
  constexpr int64_t kBlock = 4096;
  for (int64_t begin = 0; begin < elems; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, elems);
    bool found = false;  // without an early exit, so that the loop is vectorised
    for (int64_t i = begin; i < end; ++i) found |= (bits[i] & mask) == mask;
    if (!found) continue;
    for (int64_t i = begin; i < end; ++i) {
      if ((bits[i] & mask) == mask) return i;
    }
  }
  return -1;
}

}  // namespace

void convert_floats(const void* from, DType from_dtype, void* to, DType to_dtype, int64_t elems) {
  if (from_dtype == to_dtype) {
    std::memmove(to, from, static_cast<size_t>(elems * size_of(to_dtype)));
    return;
  }
  switch (from_dtype) {
    case DType::kF32:
      return convert_from<float>(from, to, to_dtype, elems);
    case DType::kBF16:
      return convert_from<bf16>(from, to, to_dtype, elems);
    case DType::kF16:
      return convert_from<f16>(from, to, to_dtype, elems);
    default:
      SPILLWAY_CHECK(false, "{} is not floating", name_of(from_dtype));
  }
}

int64_t find_nonfinite(const void* values, DType dtype, int64_t elems) {
  switch (dtype) {
    case DType::kF32:
      return find_exponent<uint32_t>(values, 0x7F800000, elems);
    case DType::kBF16:
      return find_exponent<uint16_t>(values, 0x7F80, elems);
    case DType::kF16:
      return find_exponent<uint16_t>(values, 0x7C00, elems);
    default:
      SPILLWAY_CHECK(false, "{} is not floating", name_of(dtype));
  }
}

}  // namespace spillway
