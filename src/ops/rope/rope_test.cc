#include "ops/rope/rope.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr double kScaling = 1.25;

// The angle is a product of f32 numbers rounded to f32, as transformers computes it.
Numbers reference_halves(const std::vector<Numbers>& in) {
  const size_t half = in[2].size(), rows = in[1].size();
  const size_t width = rows == 0 ? 0 : in[0].size() / rows;
  Numbers out = in[0];
  for (size_t row = 0; row < rows; ++row) {
    for (size_t head = row * width; head < (row + 1) * width; head += 2 * half) {
      for (size_t i = 0; i < half; ++i) {
        const double angle = static_cast<float>(in[1][row]) * static_cast<float>(in[2][i]);
        const double c = std::cos(angle) * kScaling, s = std::sin(angle) * kScaling;
        out[head + i] = in[0][head + i] * c - in[0][head + half + i] * s;
        out[head + half + i] = in[0][head + half + i] * c + in[0][head + i] * s;
      }
    }
  }
  return out;
}

Numbers frequencies(int64_t half) {
  Numbers numbers;
  for (int64_t i = 0; i < half; ++i) numbers.push_back(std::pow(10000.0, -static_cast<double>(i) / half));
  return numbers;
}

}  // namespace

TEST_CASE("rope rotates pairs of halves, near the start and at far positions") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t size : {2, 16, 80}) {
      constexpr int64_t kTokens = 5;
      check_operation(
          {.tokens = kTokens,
           .inputs = {{{dtype, {kTokens, 3 * size}, kTokenAxis}, random_numbers(kTokens * 3 * size, 1)},
                      {{DType::kI32, {kTokens}, kTokenAxis}, {0, 1, 77, 4096, 131071}, false},
                      {{DType::kF32, {size / 2}}, frequencies(size / 2), false}},
           .build = [&](Builder& b,
                        const std::vector<ValueId>& in) { return ops::rope(b, in[0], in[1], in[2], size, kScaling); },
           .reference = reference_halves});
    }
  }
}

TEST_CASE("rope refuses heads that do not divide the row and tables of another size") {
  Graph graph{.axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4, 12}, kTokenAxis}, ValueKind::kBatch);
  const ValueId positions = b.input("positions", {DType::kI32, {4}, kTokenAxis}, ValueKind::kBatch);
  const ValueId inv_freq = b.input("inv_freq", {DType::kF32, {2}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::rope(b, x, positions, inv_freq, 8),
                    "[rope] expected a head size that divides 12, got 8; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::rope(b, x, positions, inv_freq, 3),
                    "[rope] expected an even head size of at most 512, got 3; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::rope(b, x, positions, inv_freq, 6),
                    "[rope] expected inv_freq as f32[3], got f32[2]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::rope(b, x, inv_freq, inv_freq, 4),
                    "[rope] expected positions as i32[4t], got f32[2]; cast it or check the model's sizes");
}
