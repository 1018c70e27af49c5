#include "ops/simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/quantised_matmul/int8_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "ops/quantised_matmul/decoders.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

using Bytes = hn::Rebind<int8_t, Floats>;
using Integers = hn::Rebind<int32_t, Floats>;

template <DType kRounded, typename T>
HWY_INLINE void decode_row(const int8_t* codes, int64_t count, float scale, T* out) {
  const auto at = [&](const int8_t* from) HWY_ATTR {
    const Vector v = hn::ConvertTo(Floats(), hn::PromoteTo(Integers(), hn::LoadU(Bytes(), from)));
    return round_to(kRounded, hn::Mul(v, constant(scale)));
  };
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) store(at(codes + i), out + i);
  if (i == count) return;
  alignas(64) int8_t rest[kMaxLanes] = {};
  std::copy_n(codes + i, std::min(count - i, kMaxLanes), rest);
  store_some(at(rest), out + i, count - i);
}

// Elements that are rounded to kRounded before they become a T.
template <DType kRounded, typename T>
HWY_INLINE void decode_rows(const QuantisedWeight& weight, const cpu::MatrixRange& range, int64_t stride, T* out) {
  constexpr float kStep = 1.0f / 127.0f;
  const int8_t* codes = static_cast<const int8_t*>(weight.codes) + range.row * weight.columns + range.column;
  for (int64_t i = 0; i < range.rows; ++i) {
    const float scale = static_cast<const float*>(weight.scales)[range.row + i] * kStep;
    prefetch_rows(codes + i * weight.columns, weight.columns, range.columns);
    decode_row<kRounded>(codes + i * weight.columns, range.columns, scale, out + i * stride);
  }
}

void decode_int8(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType dtype, int64_t stride, void* out) {
  const DType rounded = weight.format.weight_dtype;
  auto* const floats = static_cast<float*>(out);
  auto* const halves = static_cast<bf16*>(out);
  if (dtype == DType::kF32) {
    rounded == DType::kF32    ? decode_rows<DType::kF32>(weight, range, stride, floats)
    : rounded == DType::kBF16 ? decode_rows<DType::kBF16>(weight, range, stride, floats)
                              : decode_rows<DType::kF16>(weight, range, stride, floats);
  } else {  // storing a bf16 rounds
    rounded == DType::kF16 ? decode_rows<DType::kF16>(weight, range, stride, halves)
                           : decode_rows<DType::kF32>(weight, range, stride, halves);
  }
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
namespace {
HWY_EXPORT(decode_int8);
}
void decode_int8(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType dtype, int64_t stride, void* out) {
  HWY_DYNAMIC_DISPATCH(decode_int8)(weight, range, dtype, stride, out);
}
}  // namespace spillway::ops
#endif
