#include "ops/quantise/four_bit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/index.h"
#include "base/random.h"
#include "ops/quantised_matmul/quantised_weight.h"
#include "tensor/codebook.h"

using namespace spillway;
using namespace spillway::ops;

namespace {

struct Quantised {
  std::vector<uint8_t> codes;
  std::vector<float> absmax;
  bool operator==(const Quantised&) const = default;
};

Quantised quantise(const std::vector<float>& weight, const QuantisedFormat& format, int threads = 2) {
  const int64_t elems = static_cast<int64_t>(weight.size());
  Quantised result{std::vector<uint8_t>(static_cast<size_t>(four_bit_code_bytes(elems))),
                   std::vector<float>(static_cast<size_t>(four_bit_blocks(elems, format.block_size)))};
  ThreadPool pool(threads);
  quantise_four_bit(weight, format, result.codes, result.absmax, pool);
  return result;
}

// Quantises as backends/default/ops.py of bitsandbytes does, an element at a time.
Quantised plainly_quantised(const std::vector<float>& weight, const QuantisedFormat& format) {
  std::vector<uint8_t> order(16);
  const auto& table = format.coding == WeightCoding::kNf4 ? kNf4 : kFp4;
  for (uint8_t i = 0; i < 16; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](uint8_t a, uint8_t b) { return table[a] < table[b]; });
  const auto code_of = [&](float s) {
    size_t i = 0;
    while (i < 15 && (table[order[i]] + table[order[i + 1]]) / 2 < s) ++i;
    return format.coding == WeightCoding::kFp4 && order[i] == 8 ? 0 : order[i];
  };
  Quantised result;
  std::vector<int> codes;
  const size_t block = static_cast<size_t>(format.block_size);
  for (size_t begin = 0; begin < weight.size(); begin += block) {
    const size_t end = std::min(weight.size(), begin + block);
    float absmax = 0;
    for (size_t i = begin; i < end; ++i) absmax = std::max(absmax, std::fabs(weight[i]));
    const float at_least = std::max(absmax, 1e-38F);
    const bool is_short = end - begin < block;
    for (size_t i = begin; i < end; ++i) {
      const float s = is_short ? weight[i] / at_least : weight[i] * (1.0F / at_least);
      codes.push_back(code_of(std::clamp(s, -1.0F, 1.0F)));
    }
    result.absmax.push_back(is_short ? at_least : absmax);
  }
  if (codes.size() % 2 == 1) codes.push_back(code_of(0));
  for (size_t i = 0; i < codes.size(); i += 2)
    result.codes.push_back(static_cast<uint8_t>(codes[i] * 16 + codes[i + 1]));
  return result;
}

std::vector<float> plainly_decoded(const Quantised& q, const QuantisedFormat& format, int64_t elems) {
  std::vector<float> weight;
  for (int64_t i = 0; i < elems; ++i) {
    const int byte = nth(q.codes, i / 2);
    const int code = i % 2 == 0 ? byte / 16 : byte % 16;
    const float value = nth(format.coding == WeightCoding::kNf4 ? kNf4 : kFp4, code);
    weight.push_back(value * nth(q.absmax, i / format.block_size));
  }
  return weight;
}

// Decodes with the functions that decode for products.
template <typename T>
std::vector<T> decoded(const Quantised& q, QuantisedFormat format, int64_t elems) {
  format.weight_dtype = DType::kF32;
  const QuantisedWeight weight{q.codes.data(), q.absmax.data(), nullptr, 1, elems, format};
  std::vector<T> result(static_cast<size_t>(elems));
  decode(weight, {.rows = 1, .columns = elems}, std::is_same_v<T, bf16> ? DType::kBF16 : DType::kF32, elems,
         result.data());
  return result;
}

// Undoes double quantisation: uses blocks whose first code is that of 1, which decode to their scales.
std::vector<float> scales_of(const std::vector<uint8_t>& codes, std::vector<float> nested, float offset) {
  const QuantisedFormat format{.weight_dtype = DType::kF32};
  nested.push_back(offset);
  const int64_t elems = format.block_size * std::ssize(codes);
  const std::vector<uint8_t> ones(static_cast<size_t>(four_bit_code_bytes(elems)), 0xFF);
  const QuantisedWeight weight{ones.data(), codes.data(), nested.data(), 1, elems, format};
  std::vector<float> values(static_cast<size_t>(elems)), scales;
  decode(weight, {.rows = 1, .columns = elems}, DType::kF32, elems, values.data());
  for (size_t i = 0; i < codes.size(); ++i) scales.push_back(values[64 * i]);
  return scales;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Returns numbers of every size; zeros; with the first of a block 1, numbers on the middles and beside them.
std::vector<float> numbers(int64_t elems, const QuantisedFormat& format) {
  std::vector<float> result;
  RandomStream random(3, static_cast<uint64_t>(elems));
  for (int64_t i = 0; i < elems; ++i) {
    const int64_t block = i / format.block_size, at = i % format.block_size;
    const float x = random.uniform() * 2 - 1;
    const auto middle = [&](int64_t j) {
      return format.coding == WeightCoding::kNf4 ? nth(kNf4Midpoints, j % 15) : nth(kFp4Midpoints, j % 14);
    };
    if (block % 7 == 1) {
      result.push_back(0);
    } else if (block % 7 == 2) {
      result.push_back(x * 1e-42F);  // denormal, and its inverse is not finite
    } else if (block % 7 == 3) {
      result.push_back(x * std::numeric_limits<float>::max());
    } else if (block % 7 == 4 || block % 7 == 5) {
      const float tie = middle(at / 3);
      const float nudged = at % 3 == 0 ? tie : std::nextafter(tie, at % 3 == 1 ? -2.0F : 2.0F);
      result.push_back(at == 0 ? 1 : block % 7 == 4 ? nudged : -nudged);
    } else {
      result.push_back(x * std::exp(4 * random.uniform()));
    }
  }
  return result;
}

}  // namespace

TEST_CASE("codes and scales are those of bitsandbytes' rules, whatever the block and the end") {
  for (const WeightCoding type : {WeightCoding::kNf4, WeightCoding::kFp4}) {
    for (const int64_t block_size : {32, 64, 128, 4096}) {
      for (const int64_t elems : {1, 2, 31, 64, 95, 4096, 8191, 30001}) {
        CAPTURE(block_size);
        CAPTURE(elems);
        const QuantisedFormat format{type, block_size, false};
        const std::vector<float> weight = numbers(elems, format);
        const Quantised plain = plainly_quantised(weight, format);
        CHECK(quantise(weight, format) == plain);
        CHECK(same_bits(decoded<float>(plain, format, elems), plainly_decoded(plain, format, elems)));
      }
    }
  }
}

TEST_CASE("every instruction set gives the same bits") {
  const QuantisedFormat nf4{WeightCoding::kNf4, 64, false}, fp4{WeightCoding::kFp4, 64, false};
  for (const std::string_view isa : cpu::supported_isas()) {
    CAPTURE(isa);
    cpu::limit_isa(isa);
    for (const QuantisedFormat& format : {nf4, fp4}) {
      const std::vector<float> weight = numbers(64 * 30 + 11, format);
      const Quantised plain = plainly_quantised(weight, format);
      CHECK(quantise(weight, format) == plain);
      CHECK(same_bits(decoded<float>(plain, format, 64 * 30 + 11), plainly_decoded(plain, format, 64 * 30 + 11)));
    }
  }
  cpu::limit_isa("");
}

TEST_CASE("the last block may be all zeros") {
  const QuantisedFormat format;
  const Quantised q = quantise(std::vector<float>(64 + 3), format);
  CHECK(q.absmax == std::vector<float>{0, 1e-38F});
  CHECK(std::count(q.codes.begin(), q.codes.end(), kNf4Zero * 17) == 34);
}

TEST_CASE("decoded values are rounded to bf16 once") {
  const QuantisedFormat format{WeightCoding::kNf4, 64, false};
  std::vector<float> weight = numbers(6400 + 13, format);
  for (float& x : weight) x = std::clamp(x, -1e38F, 1e38F);
  const Quantised q = quantise(weight, format);
  const std::vector<bf16> back = decoded<bf16>(q, format, std::ssize(weight));
  const std::vector<float> values = plainly_decoded(q, format, std::ssize(weight));
  for (size_t i = 0; i < back.size(); ++i) REQUIRE(back[i].bits == to_bf16(values[i]).bits);
}

TEST_CASE("neither threads nor pieces of whole blocks change codes") {
  const QuantisedFormat format{WeightCoding::kFp4, 128, false};
  const std::vector<float> weight = numbers(128 * 700 + 5, format);
  const Quantised whole = quantise(weight, format, 1);
  CHECK(quantise(weight, format, 3) == whole);
  Quantised joined;
  for (size_t begin = 0; begin < weight.size(); begin += 128 * 33) {
    const auto end = weight.begin() + static_cast<ptrdiff_t>(std::min(weight.size(), begin + 128 * 33));
    const Quantised piece = quantise(std::vector<float>(weight.begin() + static_cast<ptrdiff_t>(begin), end), format);
    joined.codes.insert(joined.codes.end(), piece.codes.begin(), piece.codes.end());
    joined.absmax.insert(joined.absmax.end(), piece.absmax.begin(), piece.absmax.end());
  }
  CHECK(joined == whole);
}

TEST_CASE("scales quantised again are the nearest of the map about their mean") {
  for (const size_t count : {1, 2, 255, 256, 257, 5000}) {
    CAPTURE(count);
    std::vector<float> absmax(count);
    RandomStream random(5, count);
    for (float& value : absmax) value = random.uniform() < 0.1F ? 0 : std::exp(3 * random.uniform());
    std::vector<uint8_t> codes(count);
    std::vector<float> nested((count + 255) / 256);
    ThreadPool pool(2);
    const float offset = double_quantise(absmax, codes, nested, pool);
    double sum = 0;
    for (const float value : absmax) sum += value;
    CHECK(offset == doctest::Approx(sum / static_cast<double>(count)).epsilon(1e-6));
    const std::vector<float> back = scales_of(codes, nested, offset);
    for (size_t i = 0; i < count; ++i) {
      CAPTURE(i);
      const float scale = nested[i / 256];
      float largest = 0;
      for (size_t j = i / 256 * 256; j < std::min(count, i / 256 * 256 + 256); ++j)
        largest = std::max(largest, std::fabs(absmax[j] - offset));
      REQUIRE(scale == largest);
      REQUIRE(back[i] == kDynamicSigned[codes[i]] * scale + offset);
      for (const float value : kDynamicSigned) {
        const double off = std::fabs(double{absmax[i]} - offset - double{kDynamicSigned[codes[i]]} * scale);
        REQUIRE(off <= std::fabs(double{absmax[i]} - offset - double{value} * scale) + 1e-6 * scale);
      }
    }
  }
}

TEST_CASE("scales that are all the same come back as they are") {
  const std::vector<float> absmax(300, 0.7F);
  std::vector<uint8_t> codes(300);
  std::vector<float> nested(2);
  ThreadPool pool(2);
  const float offset = double_quantise(absmax, codes, nested, pool);
  CHECK(scales_of(codes, nested, offset) == absmax);
  CHECK(codes == std::vector<uint8_t>(300, 127));
}
