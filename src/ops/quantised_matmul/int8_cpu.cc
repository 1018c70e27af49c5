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

template <typename T>
HWY_INLINE void decode_row(const int8_t* codes, int64_t count, float scale, DType weight_dtype, T* out) {
  const auto at = [&](const int8_t* from) {
    const Vector v = hn::ConvertTo(Floats(), hn::PromoteTo(Integers(), hn::LoadU(Bytes(), from)));
    return round_to(weight_dtype, hn::Mul(v, constant(scale)));
  };
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) store(at(codes + i), out + i);
  if (i == count) return;
  alignas(64) int8_t rest[kMaxLanes] = {};
  std::copy_n(codes + i, std::min(count - i, kMaxLanes), rest);
  store_some(at(rest), out + i, count - i);
}

void decode_int8(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType dtype, int64_t stride, void* out) {
  constexpr float kStep = 1.0f / 127.0f;
  for (int64_t i = 0; i < range.rows; ++i) {
    const int64_t row = range.row + i;
    const int8_t* const codes = static_cast<const int8_t*>(weight.codes) + row * weight.columns + range.column;
    const float scale = static_cast<const float*>(weight.scales)[row] * kStep;
    if (dtype == DType::kF32) {
      decode_row(codes, range.columns, scale, weight.format.weight_dtype, static_cast<float*>(out) + i * stride);
    } else {
      decode_row(codes, range.columns, scale, weight.format.weight_dtype, static_cast<bf16*>(out) + i * stride);
    }
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
