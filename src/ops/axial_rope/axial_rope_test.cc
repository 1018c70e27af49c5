#include "ops/axial_rope/axial_rope.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr double kTheta = 10000;

Numbers reference_rope(const std::vector<Numbers>& in, const ops::AxisSizes& sizes) {
  const size_t rows = in[1].size() / 3, width = rows == 0 ? 0 : in[0].size() / rows;
  Numbers out = in[0];
  for (size_t row = 0; row < rows; ++row) {
    for (size_t at = row * width; at < (row + 1) * width;) {
      for (size_t axis = 0; axis < 3; ++axis) {
        const auto size = static_cast<size_t>(sizes[axis]);
        for (size_t i = 0; i < size; i += 2, at += 2) {
          const double angle =
              in[1][row * 3 + axis] * std::pow(kTheta, -static_cast<double>(i) / static_cast<double>(size));
          out[at] = in[0][at] * std::cos(angle) - in[0][at + 1] * std::sin(angle);
          out[at + 1] = in[0][at + 1] * std::cos(angle) + in[0][at] * std::sin(angle);
        }
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("axial_rope turns interleaved pairs by the position along their axis, near the start and far from it") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t head_size : {4, 12, 22, 128}) {
      CAPTURE(head_size);
      const ops::AxisSizes sizes = ops::video_axis_sizes(head_size);
      constexpr int64_t kTokens = 5;
      check_operation(
          {.tokens = kTokens,
           .inputs = {{{dtype, {kTokens, 3 * head_size}, kTokenAxis}, random_numbers(kTokens * 3 * head_size, 1)},
                      {{DType::kI32, {kTokens, 3}, kTokenAxis},
                       {0, 0, 0, 1, 2, 3, 20, 29, 51, 0, 1023, 7, 131071, 5, 1000},
                       false}},
           .build = [=](Builder& b,
                        const std::vector<ValueId>& in) { return ops::axial_rope(b, in[0], in[1], sizes, kTheta); },
           .reference = [=](const std::vector<Numbers>& in) { return reference_rope(in, sizes); }});
    }
  }
}

TEST_CASE("a head of a video is divided as Wan divides it") {
  const ops::AxisSizes of_wan = {44, 42, 42}, of_twelve = {4, 4, 4};
  CHECK(ops::video_axis_sizes(128) == of_wan);
  CHECK(ops::video_axis_sizes(12) == of_twelve);
}

TEST_CASE("axial_rope refuses odd axes, heads that do not divide the row and positions of another shape") {
  Graph graph{.axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4, 12}, kTokenAxis}, ValueKind::kBatch);
  const ValueId positions = b.input("positions", {DType::kI32, {4, 3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId flat = b.input("flat", {DType::kI32, {4}, kTokenAxis}, ValueKind::kBatch);
  CHECK_THROWS_WITH(
      (void)ops::axial_rope(b, x, positions, {3, 1, 2}),
      "[axial_rope] expected even sizes of axes, 512 together at most, got 3, 1 and 2; check the head size");
  CHECK_THROWS_WITH((void)ops::axial_rope(b, x, positions, {4, 2, 2}),
                    "[axial_rope] expected a head size that divides 12, got 8; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::axial_rope(b, x, flat, {4, 4, 4}),
                    "[axial_rope] expected positions as i32[4t, 3], got i32[4t]; cast it or check the model's sizes");
}
