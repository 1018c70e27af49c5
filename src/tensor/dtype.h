// Element types and the conversions between them. bf16 and f16 round to nearest even. GPU code calls the constexpr
// functions, too.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace spillway {

enum class DType : uint8_t { kF32, kBF16, kF16, kI32, kI64, kU8, kI8 };

[[nodiscard]] int64_t size_of(DType dtype);
// Returns "f32", "bf16", ...
[[nodiscard]] std::string_view name_of(DType dtype);

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

[[nodiscard]] constexpr float to_float(float value) { return value; }
[[nodiscard]] constexpr float to_float(bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }
[[nodiscard]] constexpr float to_float(f16 value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1F, mantissa = value.bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

[[nodiscard]] constexpr bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {static_cast<uint16_t>((bits >> 16) | 0x40)};  // NaN stays NaN
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}
[[nodiscard]] constexpr f16 to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return {static_cast<uint16_t>(sign | 0x7E00)};
  if (magnitude >= 0x477FF000) return {static_cast<uint16_t>(sign | 0x7C00)};  // 65520 and more round to infinity
  if (magnitude < 0x38800000) {
    // Subnormal: adding 0.5 lines the value up at 2^-24 and rounds to nearest even.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3F000000))};
  }
  const uint32_t rounded = magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1);
  return {static_cast<uint16_t>(sign | (rounded >> 13))};
}

}  // namespace spillway
