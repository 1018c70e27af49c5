#include "ops/rope/rope.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr double kScaling = 1.25;

// Computes the expected output from the inputs x, positions, inv_freq and perhaps offsets.
struct RopeReference {
  ops::RopeOptions options;
  int64_t max_short = 0;

  // The angle is a product of f32 numbers rounded to f32, as transformers computes it.
  Numbers operator()(const std::vector<Numbers>& in) const {
    const bool is_by_length = in.size() > 3;
    const size_t half = in[2].size() / (is_by_length ? 2 : 1), rows = in[1].size();
    const size_t width = rows == 0 ? 0 : in[0].size() / rows, size = static_cast<size_t>(options.head_size);
    const bool is_of_pairs = options.layout == ops::RopeLayout::kPairs;
    Numbers out = in[0];
    for (size_t row = 0; row < rows; ++row) {
      const double lengths = std::floor(in[1][row] / static_cast<double>(options.growth_length));
      const double scaling = options.attention_scaling * (1 + options.growth * std::log(1 + lengths));
      const size_t first = is_by_length && is_long(in[3], row) ? half : 0;
      for (size_t head = row * width; head < (row + 1) * width; head += size) {
        for (size_t i = 0; i < half; ++i) {
          const double angle = static_cast<float>(in[1][row]) * static_cast<float>(in[2][first + i]);
          const double c = std::cos(angle) * scaling, s = std::sin(angle) * scaling;
          const size_t left = head + (is_of_pairs ? 2 * i : i), right = is_of_pairs ? left + 1 : left + half;
          out[left] = in[0][left] * c - in[0][right] * s;
          out[right] = in[0][right] * c + in[0][left] * s;
        }
      }
    }
    return out;
  }

  [[nodiscard]] bool is_long(const Numbers& offsets, size_t row) const {
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      const auto at = static_cast<double>(row);
      if (offsets[i] <= at && at < offsets[i + 1]) return offsets[i + 1] - offsets[i] > static_cast<double>(max_short);
    }
    return false;
  }
};

Numbers frequencies(int64_t half) {
  Numbers numbers;
  for (int64_t i = 0; i < half; ++i) numbers.push_back(std::pow(10000.0, -static_cast<double>(i) / half));
  return numbers;
}

}  // namespace

TEST_CASE("rope rotates pairs of halves or of neighbours, near the start and at far positions") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const ops::RopeLayout layout : {ops::RopeLayout::kHalves, ops::RopeLayout::kPairs}) {
      for (const int64_t size : {2, 16, 80}) {
        constexpr int64_t kTokens = 5;
        const RopeReference reference{{.head_size = size, .layout = layout, .attention_scaling = kScaling}};
        check_operation({.tokens = kTokens,
                         .inputs = {{{dtype, {kTokens, 3 * size}, kTokenAxis}, random_numbers(kTokens * 3 * size, 1)},
                                    {{DType::kI32, {kTokens}, kTokenAxis}, {0, 1, 77, 4096, 131071}, false},
                                    {{DType::kF32, {size / 2}}, frequencies(size / 2), false}},
                         .build =
                             [&](Builder& b, const std::vector<ValueId>& in) {
                               return ops::rope(b, in[0], in[1], in[2], reference.options);
                             },
                         .reference = reference});
      }
    }
  }
}

TEST_CASE("rope turns the first elements of a head alone where there are angles for these alone") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const ops::RopeLayout layout : {ops::RopeLayout::kHalves, ops::RopeLayout::kPairs}) {
      for (const int64_t half : {1, 3, 20}) {
        constexpr int64_t kTokens = 5, kSize = 50;
        const RopeReference reference{{.head_size = kSize, .layout = layout}};
        check_operation({.tokens = kTokens,
                         .inputs = {{{dtype, {kTokens, 2 * kSize}, kTokenAxis}, random_numbers(kTokens * 2 * kSize, 1)},
                                    {{DType::kI32, {kTokens}, kTokenAxis}, {3, 1, 77, 0, 5000}, false},
                                    {{DType::kF32, {half}}, frequencies(half), false}},
                         .build =
                             [&](Builder& b, const std::vector<ValueId>& in) {
                               return ops::rope(b, in[0], in[1], in[2], reference.options);
                             },
                         .reference = reference});
      }
    }
  }
}

TEST_CASE("rope grows with the logarithm of how many times a length fits into the position") {
  constexpr int64_t kTokens = 6, kSize = 16;
  const RopeReference reference{
      {.head_size = kSize, .attention_scaling = kScaling, .growth = 0.1, .growth_length = 100}};
  check_operation(
      {.tokens = kTokens,
       .inputs = {{{DType::kF32, {kTokens, kSize}, kTokenAxis}, random_numbers(kTokens * kSize, 1)},
                  {{DType::kI32, {kTokens}, kTokenAxis}, {0, 99, 100, 199, 200, 100000}, false},
                  {{DType::kF32, {kSize / 2}}, frequencies(kSize / 2), false}},
       .build = [&](Builder& b,
                    const std::vector<ValueId>& in) { return ops::rope(b, in[0], in[1], in[2], reference.options); },
       .reference = reference});
}

TEST_CASE("rope by length turns the rows of long sequences by angles of their own") {
  constexpr int64_t kTokens = 12, kSize = 16, kHalf = 6, kMaxShort = 4;
  const RopeReference reference{{.head_size = kSize}, kMaxShort};
  Numbers angles = frequencies(kHalf);
  for (int64_t i = 0; i < kHalf; ++i) angles.push_back(angles[static_cast<size_t>(i)] / (2 + static_cast<double>(i)));
  // The sequences have 4, 5, none and 1 rows; two rows belong to none.
  check_operation({.tokens = kTokens,
                   .inputs = {{{DType::kF32, {kTokens, kSize}, kTokenAxis}, random_numbers(kTokens * kSize, 1)},
                              {{DType::kI32, {kTokens}, kTokenAxis}, {0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 7, 8}, false},
                              {{DType::kF32, {2 * kHalf}}, angles, false},
                              {{DType::kI32, {5}}, {0, 4, 9, 9, 10}, false}},
                   .build =
                       [&](Builder& b, const std::vector<ValueId>& in) {
                         return ops::rope(b, in[0], in[1], in[2], reference.options,
                                          {.offsets = in[3], .max_short = kMaxShort});
                       },
                   .reference = reference});
}

TEST_CASE("rope refuses heads that do not divide the row and tables of another size") {
  Graph graph{.axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4, 12}, kTokenAxis}, ValueKind::kBatch);
  const ValueId positions = b.input("positions", {DType::kI32, {4}, kTokenAxis}, ValueKind::kBatch);
  const ValueId inv_freq = b.input("inv_freq", {DType::kF32, {2}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::rope(b, x, positions, inv_freq, {.head_size = 8}),
                    "[rope] expected a head size that divides 12, got 8; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::rope(b, x, positions, inv_freq, {.head_size = 3}),
                    "[rope] expected an even head size of at most 512, got 3; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::rope(b, x, positions, inv_freq, {.head_size = 2}),
                    "[rope] expected angles of 1 to 1 pairs, got 2; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::rope(b, x, inv_freq, inv_freq, {.head_size = 4}),
                    "[rope] expected positions as i32[4t], got f32[2]; cast it or check the model's sizes");
}
