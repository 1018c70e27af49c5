#include "ops/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantised_matmul/int8_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "ops/quantised_matmul/decoders.h"
#include "ops/quantised_matmul/rounding-inl.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

using Int8Codes = hn::Rebind<int8_t, Floats>;
using Integers = hn::Rebind<int32_t, Floats>;

// The types to which the elements of a weight are rounded, one after the other.
template <DType kWeight, DType kElements>
struct Int8Rounding {
  HWY_INLINE Vector operator()(Vector v) const { return round_to(kElements, round_to(kWeight, v)); }
};

template <typename Rounding>
HWY_INLINE Vector value_of(hn::Vec<Integers> codes, float scale) {
  return Rounding()(hn::Mul(hn::ConvertTo(Floats(), codes), constant(scale)));
}

// Decodes as far as this goes, and returns how many elements that are.
template <typename Rounding>
HWY_INLINE int64_t decode_int8_steps(const int8_t*, int64_t, float, float*) {
  return 0;
}
// Makes the two halves of a word from two codes, so that nothing has to be narrowed.
template <typename Rounding>
HWY_INLINE int64_t decode_int8_steps(const int8_t* codes, int64_t count, float scale, bf16* out) {
  const hn::Rebind<int16_t, Floats> pairs;
  const int64_t step = 2 * lanes();
  int64_t i = 0;
  for (; i + step <= count; i += step) {
    const auto pair = hn::PromoteTo(Integers(), hn::LoadU(pairs, reinterpret_cast<const int16_t*>(codes + i)));
    const Vector first = value_of<Rounding>(hn::ShiftRight<24>(hn::ShiftLeft<24>(pair)), scale);
    const Vector second = value_of<Rounding>(hn::ShiftRight<8>(pair), scale);
    const auto lower = hn::ShiftRight<16>(number_in_upper_halves(first));
    const auto upper = hn::And(number_in_upper_halves(second), hn::Set(Words(), 0xFFFF0000));
    hn::StoreU(hn::Or(lower, upper), Words(), reinterpret_cast<uint32_t*>(out + i));
  }
  return i;
}

template <typename Rounding, typename T>
HWY_INLINE void decode_int8_row(const int8_t* codes, int64_t count, float scale, T* out) {
  const auto at = [&](const int8_t* from) HWY_ATTR {
    return value_of<Rounding>(hn::PromoteTo(Integers(), hn::LoadU(Int8Codes(), from)), scale);
  };
  int64_t i = decode_int8_steps<Rounding>(codes, count, scale, out);
  for (; i + lanes() <= count; i += lanes()) store(at(codes + i), out + i);
  if (i == count) return;
  alignas(64) int8_t rest[kMaxLanes] = {};
  std::copy_n(codes + i, std::min(count - i, kMaxLanes), rest);
  store_some(at(rest), out + i, count - i);
}

template <typename Rounding, typename T>
HWY_INLINE void decode_int8_rows(const QuantisedWeight& weight, const cpu::MatrixRange& range, int64_t stride, T* out) {
  const int8_t* codes = static_cast<const int8_t*>(weight.codes) + range.row * weight.columns + range.column;
  for (int64_t i = 0; i < range.rows; ++i) {
    const float scale = static_cast<const float*>(weight.scales)[range.row + i] * kInt8Step;
    prefetch_rows(codes + i * weight.columns, weight.columns, range.columns);
    decode_int8_row<Rounding>(codes + i * weight.columns, range.columns, scale, out + i * stride);
  }
}

template <DType kElements, typename T>
void decode_int8_as(const QuantisedWeight& weight, const cpu::MatrixRange& range, int64_t stride, T* out) {
  weight.format.weight_dtype == DType::kF16
      ? decode_int8_rows<Int8Rounding<DType::kF16, kElements>>(weight, range, stride, out)
      : decode_int8_rows<Int8Rounding<DType::kF32, kElements>>(weight, range, stride, out);
}

void decode_int8(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType elements, DType dtype,
                 int64_t stride, void* out) {
  if (dtype == DType::kBF16) {
    decode_int8_as<DType::kF32>(weight, range, stride, static_cast<bf16*>(out));  // storing rounds
  } else if (elements == DType::kBF16 || weight.format.weight_dtype == DType::kBF16) {
    decode_int8_as<DType::kBF16>(weight, range, stride, static_cast<float*>(out));
  } else {
    decode_int8_as<DType::kF32>(weight, range, stride, static_cast<float*>(out));
  }
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
namespace {
HWY_EXPORT(decode_int8);
}
void decode_int8(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType elements, DType dtype,
                 int64_t stride, void* out) {
  HWY_DYNAMIC_DISPATCH(decode_int8)(weight, range, elements, dtype, stride, out);
}
}  // namespace spillway::ops
#endif
