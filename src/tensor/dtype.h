// Element types and the conversions between them. bf16 and f16 round to nearest even. What is constexpr here, GPU code
// calls, too.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace spillway {

enum class DType : uint8_t { kF32, kBF16, kF16, kI32, kI64, kU8, kI8 };

[[nodiscard]] int64_t size_of(DType dtype);
// "f32", "bf16", ...
[[nodiscard]] std::string_view name_of(DType dtype);

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

[[nodiscard]] constexpr float to_float(float value) { return value; }
[[nodiscard]] constexpr float to_float(bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }
[[nodiscard]] float to_float(f16 value);

[[nodiscard]] inline bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {static_cast<uint16_t>((bits >> 16) | 0x40)};  // NaN stays NaN
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}
[[nodiscard]] f16 to_f16(float value);

}  // namespace spillway
