#include "ops/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantised_matmul/eight_bit_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <limits>

#include "ops/quantised_matmul/decoders.h"
#include "ops/quantised_matmul/rounding-inl.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

using Int8Codes = hn::Rebind<int8_t, Floats>;
using Integers = hn::Rebind<int32_t, Floats>;

// The numbers of codes whose bytes are extended by their signs.
struct Int8Numbers {
  HWY_INLINE Vector operator()(hn::Vec<Integers> codes) const { return hn::ConvertTo(Floats(), codes); }
};
struct E4m3Numbers {
  HWY_INLINE Vector operator()(hn::Vec<Integers> codes) const {
    const Integers d;
    const auto magnitude = hn::And(codes, hn::Set(d, 0x7F));
    const auto sign = hn::And(codes, hn::Set(d, std::numeric_limits<int32_t>::min()));
    const auto normal = hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(d, 120 << 23));
    const auto subnormal = hn::BitCast(d, hn::Mul(hn::ConvertTo(Floats(), magnitude), constant(0x1p-9f)));
    return hn::BitCast(Floats(), hn::Or(sign, hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 8)), subnormal, normal)));
  }
};

// The elements of a weight, and the types to which they are rounded, one after the other.
template <typename Numbers, DType kWeight, DType kElements>
struct EightBitElements {
  HWY_INLINE Vector operator()(hn::Vec<Integers> codes, float scale) const {
    return round_to(kElements, round_to(kWeight, hn::Mul(Numbers()(codes), constant(scale))));
  }
};

// Decodes as far as this goes, and returns how many elements that are.
template <typename Elements>
HWY_INLINE int64_t decode_eight_bit_steps(const int8_t*, int64_t, float, float*) {
  return 0;
}
// Makes the two halves of a word from two codes, so that nothing has to be narrowed.
template <typename Elements>
HWY_INLINE int64_t decode_eight_bit_steps(const int8_t* codes, int64_t count, float scale, bf16* out) {
  const hn::Rebind<int16_t, Floats> pairs;
  const int64_t step = 2 * lanes();
  int64_t i = 0;
  for (; i + step <= count; i += step) {
    const auto pair = hn::PromoteTo(Integers(), hn::LoadU(pairs, reinterpret_cast<const int16_t*>(codes + i)));
    const Vector first = Elements()(hn::ShiftRight<24>(hn::ShiftLeft<24>(pair)), scale);
    const Vector second = Elements()(hn::ShiftRight<8>(pair), scale);
    const auto lower = hn::ShiftRight<16>(number_in_upper_halves(first));
    const auto upper = hn::And(number_in_upper_halves(second), hn::Set(Words(), 0xFFFF0000));
    hn::StoreU(hn::Or(lower, upper), Words(), reinterpret_cast<uint32_t*>(out + i));
  }
  return i;
}

// Decodes elements that share a scale.
template <typename Elements, typename T>
HWY_INLINE void decode_eight_bit_run(const int8_t* codes, int64_t count, float scale, T* out) {
  const auto at = [&](const int8_t* from)
                      HWY_ATTR { return Elements()(hn::PromoteTo(Integers(), hn::LoadU(Int8Codes(), from)), scale); };
  int64_t i = decode_eight_bit_steps<Elements>(codes, count, scale, out);
  for (; i + lanes() <= count; i += lanes()) store(at(codes + i), out + i);
  if (i == count) return;
  alignas(64) int8_t rest[kMaxLanes] = {};
  std::copy_n(codes + i, std::min(count - i, kMaxLanes), rest);
  store_some(at(rest), out + i, count - i);
}

template <typename Elements, typename T>
HWY_INLINE void decode_eight_bit_rows(const QuantisedWeight& weight, const cpu::MatrixRange& range, int64_t stride,
                                      T* out) {
  const QuantisedFormat& format = weight.format;
  const int64_t width = format.block_columns == 0 ? weight.columns : format.block_columns;  // that share a scale
  const int64_t across = fp8_scale_columns(format, weight.columns);
  const float step = format.coding == WeightCoding::kInt8 ? kInt8Step : 1;
  const int8_t* codes = static_cast<const int8_t*>(weight.codes) + range.row * weight.columns + range.column;
  for (int64_t i = 0; i < range.rows; ++i, codes += weight.columns, out += stride) {
    const float* const scales = static_cast<const float*>(weight.scales) + (range.row + i) / format.block_rows * across;
    prefetch_rows(codes, weight.columns, range.columns);
    for (int64_t first = 0; first < range.columns;) {
      const int64_t block = (range.column + first) / width;
      const int64_t end = std::min(range.columns, (block + 1) * width - range.column);
      decode_eight_bit_run<Elements>(codes + first, end - first, scales[block] * step, out + first);
      first = end;
    }
  }
}

template <DType kElements, typename T>
void decode_eight_bit_as(const QuantisedWeight& weight, const cpu::MatrixRange& range, int64_t stride, T* out) {
  if (weight.format.coding == WeightCoding::kFp8) {
    decode_eight_bit_rows<EightBitElements<E4m3Numbers, DType::kF32, kElements>>(weight, range, stride, out);
  } else if (weight.format.weight_dtype == DType::kF16) {
    decode_eight_bit_rows<EightBitElements<Int8Numbers, DType::kF16, kElements>>(weight, range, stride, out);
  } else {
    decode_eight_bit_rows<EightBitElements<Int8Numbers, DType::kF32, kElements>>(weight, range, stride, out);
  }
}

void decode_eight_bit(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType elements, DType dtype,
                      int64_t stride, void* out) {
  if (dtype == DType::kBF16) {
    decode_eight_bit_as<DType::kF32>(weight, range, stride, static_cast<bf16*>(out));  // storing rounds
  } else if (elements == DType::kBF16 || weight.format.weight_dtype == DType::kBF16) {
    decode_eight_bit_as<DType::kBF16>(weight, range, stride, static_cast<float*>(out));
  } else {
    decode_eight_bit_as<DType::kF32>(weight, range, stride, static_cast<float*>(out));
  }
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
namespace {
HWY_EXPORT(decode_eight_bit);
}
void decode_eight_bit(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType elements, DType dtype,
                      int64_t stride, void* out) {
  HWY_DYNAMIC_DISPATCH(decode_eight_bit)(weight, range, elements, dtype, stride, out);
}
}  // namespace spillway::ops
#endif
