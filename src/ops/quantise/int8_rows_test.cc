#include "ops/quantise/int8_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/random.h"
#include "ops/quantised_matmul/quantised_weight.h"

using namespace spillway;
using namespace spillway::ops;

namespace {

struct Rows {
  std::vector<int8_t> codes;
  std::vector<float> absmax;
  bool operator==(const Rows&) const = default;
};

Rows quantise_int8(const std::vector<float>& weight, size_t rows) {
  Rows result{std::vector<int8_t>(weight.size()), std::vector<float>(rows)};
  ThreadPool pool(2);
  quantise_int8_rows(weight, result.codes, result.absmax, pool);
  return result;
}

// Quantises an element at a time.
Rows plainly_int8(const std::vector<float>& weight, size_t rows) {
  Rows result;
  const size_t columns = weight.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    std::vector<float> halves;
    float absmax = 0;
    for (size_t i = row * columns; i < (row + 1) * columns; ++i) {
      halves.push_back(to_float(to_f16(weight[i])));
      absmax = std::max(absmax, std::fabs(halves.back()));
    }
    const float scale = absmax > 0 ? 127.0F * (1.0F / absmax) : 0;
    for (const float half : halves) result.codes.push_back(static_cast<int8_t>(std::nearbyint(half * scale)));
    result.absmax.push_back(absmax);
  }
  return result;
}

// Returns rows of sizes from denormal halves to the largest ones; the second row is zero.
std::vector<float> row_numbers(size_t rows, size_t columns) {
  std::vector<float> result;
  RandomStream random(9, rows * columns);
  for (size_t row = 0; row < rows; ++row) {
    const float scale = row == 1 ? 0 : std::pow(10.0F, static_cast<float>(row % 12) - 7.5F);
    for (size_t i = 0; i < columns; ++i) result.push_back((random.uniform() * 2 - 1) * scale);
  }
  return result;
}

}  // namespace

TEST_CASE("rows are rounded to f16 and quantised by their largest magnitude") {
  for (const size_t columns : {1, 7, 16, 40, 261}) {
    CAPTURE(columns);
    const std::vector<float> weight = row_numbers(25, columns);
    const Rows plain = plainly_int8(weight, 25);
    CHECK(quantise_int8(weight, 25) == plain);
    std::vector<float> back(weight.size());
    std::vector<bf16> narrow(weight.size());
    const auto width = static_cast<int64_t>(columns);
    const QuantisedWeight coded{plain.codes.data(),
                                plain.absmax.data(),
                                nullptr,
                                25,
                                width,
                                {.coding = WeightCoding::kInt8, .weight_dtype = DType::kF32}};
    decode(coded, {.rows = 25, .columns = width}, DType::kF32, width, back.data());
    decode(coded, {.rows = 25, .columns = width}, DType::kBF16, width, narrow.data());
    for (size_t i = 0; i < back.size(); ++i) {
      const float value = static_cast<float>(plain.codes[i]) * (plain.absmax[i / columns] * (1.0F / 127.0F));
      REQUIRE(back[i] == value);
      REQUIRE(narrow[i].bits == to_bf16(value).bits);
    }
  }
}

TEST_CASE("every instruction set gives the same codes of rows") {
  const std::vector<float> weight = row_numbers(25, 37);
  for (const std::string_view isa : cpu::supported_isas()) {
    CAPTURE(isa);
    cpu::limit_isa(isa);
    CHECK(quantise_int8(weight, 25) == plainly_int8(weight, 25));
  }
  cpu::limit_isa("");
}

TEST_CASE("every half, and what lies between two, is rounded as the conversion does") {
  // Each pair with the largest number, whose code is 127, is a row of its own, since the other's code tells little.
  std::vector<float> weight;
  for (uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const float half = to_float(f16{static_cast<uint16_t>(bits)});
    const float next = bits == 0x7BFF ? 65536.0F : to_float(f16{static_cast<uint16_t>(bits + 1)});
    const float middle = half + (next - half) / 2;
    for (const float x : {half, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)})
      weight.push_back(-x);
  }
  const Rows rows = quantise_int8(weight, weight.size());
  for (size_t i = 0; i < weight.size(); ++i) {
    CAPTURE(weight[i]);
    REQUIRE(rows.absmax[i] == std::fabs(to_float(to_f16(weight[i]))));
  }
}

TEST_CASE("a weight that f16 cannot hold shows in its row's scale") {
  CHECK(std::isinf(quantise_int8(std::vector<float>{1, 65520, 1, 2}, 2).absmax[0]));
  CHECK(quantise_int8(std::vector<float>{1, 65519, 1, 2}, 2).absmax == std::vector<float>{65504, 2});
}
