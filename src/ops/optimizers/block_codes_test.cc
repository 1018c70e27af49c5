#include "ops/optimizers/block_codes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/index.h"
#include "base/random.h"

using namespace spillway;
using namespace spillway::ops;

namespace {

// Encodes by the rules as bitsandbytes and torchao write them, over the values alone.
int code_by_rule(const BlockCodes& codes, float x) {
  const float* const v = codes.values;
  const int last = codes.count() - 1;
  if (codes.rule == CodeRule::kTorchao) {
    int low = 0;
    while (low < last && x >= v[low + 1]) ++low;
    const int high = std::min(low + 1, last);
    return x - v[low] >= (v[high] - v[low]) * 0.5F ? high : low;
  }
  int best = 0;
  for (int i = 1; i <= last; ++i) {
    const float middle = (v[i - 1] + v[i]) * 0.5F;
    if (x > middle || (x == middle && i % 2 == 0)) best = i;
  }
  if (x < 0 && v[best] == 0) --best;
  return best;
}

// Encodes as a kernel of the CPU does.
int code_by_table(const BlockCodes& codes, float x) {
  const EncodeTable& table = encode_table(codes);
  const auto bits = std::bit_cast<uint32_t>(x + 0.0F);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const bool negative = bits >> 31 != 0;
  const int32_t cell = std::max(static_cast<int32_t>(magnitude >> table.shift), table.lowest) - table.lowest;
  const uint32_t entry = nth(table.entries, cell + (negative ? table.cells : 0));
  const uint32_t rest = magnitude & ((uint32_t{1} << table.shift) - 1);
  const int code = static_cast<int>(entry & 255) + (rest > entry >> 8 ? 1 : 0);
  return negative ? codes.count() - 1 - code : code;
}

const std::vector<BlockCodes> kAll = {kBnbSigned, kBnbUnsigned, kAoSigned8, kAoUnsigned8, kAoSigned4, kAoUnsigned4};

}  // namespace

TEST_CASE(
    "codes are those of bitsandbytes' and torchao's rules: around every bound, ties, zeros, denormals, anything") {
  for (const BlockCodes& codes : kAll) {
    CAPTURE(codes.bits);
    CAPTURE(codes.is_signed);
    std::vector<float> numbers = {0.0F, -0.0F, 1.0F, 1e-45F, 1e-40F, 1e-30F, 5e-8F, 1e-7F};
    for (int i = 0; i < codes.count(); ++i) {
      numbers.push_back(codes.values[i]);
      if (i == 0) continue;
      float x = (codes.values[i - 1] + codes.values[i]) * 0.5F;
      for (int step = 0; step < 5; ++step) x = std::nextafter(x, -2.0F);
      for (int step = 0; step < 10; ++step) numbers.push_back(x = std::nextafter(x, 2.0F));
    }
    RandomStream random(1, 1);
    for (int i = 0; i < 200'000; ++i) {
      const auto uniform = static_cast<float>(random.uniform());
      numbers.push_back(i % 2 == 0 ? uniform : uniform * std::pow(10.0F, -8.0F * static_cast<float>(random.uniform())));
    }
    int wrong = 0;
    for (const float number : numbers) {
      for (const float x : {number, -number}) {
        if (std::abs(x) > 1 || (!codes.is_signed && std::signbit(x) && x != 0)) continue;
        const int want = code_by_rule(codes, x);
        int by_bounds = 0;
        while (by_bounds + 1 < codes.count() && x > upper_bound_of(codes.values, by_bounds, codes.rule)) ++by_bounds;
        if (by_bounds != want || code_by_table(codes, x) != want) {
          if (wrong++ == 0)
            FAIL_CHECK(x << " has code " << want << ", not " << by_bounds << " or " << code_by_table(codes, x));
        }
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a code of 8 bits keeps the sign, and every code stands for itself") {
  for (const BlockCodes& codes : kAll) {
    for (int i = 0; i < codes.count(); ++i) CHECK(code_by_table(codes, codes.values[i]) == i);
  }
  CHECK(kBnbSigned.values[code_by_table(kBnbSigned, -1e-30F)] < 0);
  CHECK(kBnbSigned.values[code_by_table(kBnbSigned, 1e-30F)] == 0);
  CHECK(kBnbSigned.values[code_by_table(kBnbSigned, -0.0F)] == 0);
}

TEST_CASE("a block of zeros has the absmax of its library") {
  CHECK(block_scale(0, CodeRule::kBitsandbytes).stored == 0);
  CHECK(block_scale(0, CodeRule::kBitsandbytes).divisor == 1);
  CHECK(block_scale(1e-13F, CodeRule::kBitsandbytes).divisor == 1e-13F);
  CHECK(block_scale(1e-13F, CodeRule::kTorchao).stored == 1e-12F);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(block_scale(nan, CodeRule::kTorchao).stored));
}
