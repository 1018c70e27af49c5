#include "ops/narrow_rows/narrow_rows.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

struct NarrowGraph {
  Graph graph;
  Builder b{graph};
  ValueId x, values, step, wide, next;

  NarrowGraph(const Shape& shape, const ops::RowSlice& rows, std::optional<int64_t> seed, int64_t stream = 1)
      : x(b.input("x", {DType::kBF16, shape}, ValueKind::kTrainableWeight)),
        values(b.input("values", {DType::kF32, ops::shape_of(rows, shape)}, ValueKind::kBatch)),
        step(b.input("step", {DType::kI32, {1}}, ValueKind::kBatch)),
        wide(ops::widen_rows(b, x, rows)) {
    std::optional<ops::StochasticRounding> rounding;
    if (seed) rounding = {.seed = *seed, .stream = stream, .step = step};
    next = ops::narrow_rows(b, values, x, rows, rounding);
  }
};

// Returns the numbers below and above a number in bf16.
std::pair<double, double> neighbours(double number) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(number)) & 0xFFFF0000;
  const auto toward_zero = static_cast<double>(std::bit_cast<float>(bits));
  const auto away = static_cast<double>(std::bit_cast<float>(bits + 0x10000));
  return {std::min(toward_zero, away), std::max(toward_zero, away)};
}

Numbers narrowed(const Numbers& values, std::optional<int64_t> seed, int32_t step = 1, int64_t stream = 1) {
  const auto count = std::ssize(values);
  const NarrowGraph test({count}, {0, count}, seed, stream);
  return Run(test.graph, {{test.x, Numbers(values.size())}, {test.values, values}, {test.step, {double(step)}}})
      .numbers(test.next);
}

}  // namespace

TEST_CASE("rows are widened and narrowed to the nearest, all others stay, in place or not, on every side") {
  const Shape shape{7, 13};
  const Numbers x = rounded(random_numbers(91, 1), DType::kBF16);
  for (const ops::RowSlice& rows : {ops::RowSlice{0, 7}, ops::RowSlice{2, 3}, ops::RowSlice{6, 1}}) {
    const Numbers values = random_numbers(rows.count * 13, 2);
    const auto first = static_cast<size_t>(rows.first * 13), count = values.size();
    Numbers expected = x;
    const Numbers narrow = rounded(values, DType::kBF16);
    std::copy(narrow.begin(), narrow.end(), expected.begin() + static_cast<std::ptrdiff_t>(first));
    const NarrowGraph test(shape, rows, {});
    for (const bool in_place : {false, true}) {
      const Run run(test.graph, {{test.x, x}, {test.values, values}, {test.step, {1}}}, {.in_place = in_place});
      CHECK(run.numbers(test.next) == expected);
      if (!in_place) CHECK(run.numbers(test.wide) == Numbers(x.begin() + first, x.begin() + first + count));
    }
    check_bits_of_cpu(test.graph, {{test.x, x}, {test.values, values}, {test.step, {1}}}, {.threads = 2});
    const NarrowGraph stochastic(shape, rows, 5);
    check_bits_of_cpu(stochastic.graph, {{stochastic.x, x}, {stochastic.values, values}, {stochastic.step, {9}}},
                      {.threads = 2});
  }
}

TEST_CASE("stochastic rounding gives a neighbour, and the number in the mean") {
  constexpr size_t kCount = 40'000;
  for (const double number : {1.001, -0.3, 3e-5, -1.9999, 1.0, 0.0}) {
    CAPTURE(number);
    const auto exact = static_cast<double>(static_cast<float>(number));
    const auto [below, above] = neighbours(exact);
    double sum = 0;
    for (const double value : narrowed(Numbers(kCount, number), 3)) {
      REQUIRE((value == below || value == above));
      if (below < exact) REQUIRE((value == below || value == above));
      sum += value;
    }
    // The bound is four deviations of the mean of numbers that are one of two.
    CHECK(std::abs(sum / kCount - exact) <= 4 * 0.5 * (above - below) / std::sqrt(static_cast<double>(kCount)));
  }
  const Numbers kept = {1.0, -2.5, 0.0, std::numeric_limits<double>::infinity()};
  CHECK(narrowed(kept, 3) == kept);
  CHECK(std::isnan(narrowed({std::nan("")}, 3)[0]));
}

TEST_CASE("the choice depends on seed, tensor, step and place, and on nothing else") {
  const Numbers values = random_numbers(300, 4);
  const Numbers first = narrowed(values, 1);
  CHECK(narrowed(values, 1) == first);
  CHECK(narrowed(values, 2) != first);
  CHECK(narrowed(values, 1, 2) != first);
  CHECK(narrowed(values, 1, 1, 2) != first);
  // Slices give the same as the whole.
  const Shape shape{20, 15};
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kBF16, shape}, ValueKind::kTrainableWeight);
  const ValueId step = b.input("step", {DType::kI32, {1}}, ValueKind::kBatch);
  std::map<ValueId, Numbers> inputs = {{x, Numbers(300)}, {step, {1}}};
  ValueId next = x;
  for (const ops::RowSlice& rows : {ops::RowSlice{0, 3}, ops::RowSlice{3, 10}, ops::RowSlice{13, 7}}) {
    const ValueId part =
        b.input(fmt::format("part {}", rows.first), {DType::kF32, {rows.count, 15}}, ValueKind::kBatch);
    const auto begin = values.begin() + rows.first * 15;
    inputs[part] = Numbers(begin, begin + rows.count * 15);
    next = ops::narrow_rows(b, part, next, rows, ops::StochasticRounding{.seed = 1, .stream = 1, .step = step});
  }
  CHECK(Run(graph, inputs).numbers(next) == first);
}

TEST_CASE("rows are of bf16 tensors") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4, 2}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::widen_rows(b, x, {0, 2}),
                    "[widen_rows] expected x as bf16[4, 2], got f32[4, 2]; cast it or check the model's sizes");
}
