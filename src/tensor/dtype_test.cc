#include "tensor/dtype.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace spillway;

TEST_CASE("every f16 survives a round trip through f32") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const f16 half{static_cast<uint16_t>(bits)};
    const float wide = to_float(half);
    if (std::isnan(wide)) {
      CHECK(std::isnan(to_float(to_f16(wide))));
    } else {
      REQUIRE(to_f16(wide).bits == half.bits);
    }
  }
}

TEST_CASE("halves round to nearest even") {
  CHECK(to_float(to_f16(1.0f + 0x1p-11f)) == 1.0f);
  CHECK(to_float(to_f16(1.0f + 3 * 0x1p-11f)) == 1.0f + 0x1p-9f);
  CHECK(to_float(to_f16(65519.0f)) == 65504.0f);
  CHECK(std::isinf(to_float(to_f16(65520.0f))));
  CHECK(to_float(to_bf16(1.0f + 0x1p-8f)) == 1.0f);
  CHECK(to_float(to_bf16(1.0f + 3 * 0x1p-8f)) == 1.0f + 0x1p-6f);
  CHECK(std::isnan(to_float(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}
