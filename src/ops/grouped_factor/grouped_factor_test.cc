#include "ops/grouped_factor/grouped_factor.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/add/add.h"
#include "ops/sort_pairs/sort_pairs.h"
#include "ops/sort_pairs/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kFactorTokens = 9;

struct FactorCase {
  int64_t pairs = 2, experts = 5, rank = 3;
  int64_t in = 12, out = 14, second = 10;  // numbers of a row; those of a second weight that shares B
  DType dtype = DType::kF32;
  Numbers chosen = {};  // the experts of tokens; empty: random ones
};

constexpr double kFactorScale = 0.75;

std::vector<OperandCase> factor_operands(const FactorCase& c) {
  const int64_t width = c.out + c.second;
  std::vector<OperandCase> operands = {
      experts_operand(kFactorTokens, c.pairs, c.experts),
      {{c.dtype, {kFactorTokens, c.pairs * c.in}, kTokenAxis}, random_numbers(kFactorTokens * c.pairs * c.in, 2)},
      {{c.dtype, {c.experts * c.rank, c.in}}, random_numbers(c.experts * c.rank * c.in, 3)},
      {{c.dtype, {width, c.rank * c.experts}}, random_numbers(width * c.rank * c.experts, 4)}};
  if (!c.chosen.empty()) operands[0].numbers = c.chosen;
  return operands;
}

// Element (i, k) of an expert's B A, in PEFT's layout: A is expert by expert, B rank by rank.
double update_of(const FactorCase& c, const Numbers& a, const Numbers& b, int64_t expert, int64_t i, int64_t k) {
  double sum = 0;
  for (int64_t j = 0; j < c.rank; ++j)
    sum += b[static_cast<size_t>(i * c.rank * c.experts + j * c.experts + expert)] *
           a[static_cast<size_t>((expert * c.rank + j) * c.in + k)];
  return sum;
}

// Computes rows [first, first + count) of the scaled update times each pair's row.
Numbers factor_reference(const FactorCase& c, const std::vector<Numbers>& in, int64_t first, int64_t count) {
  Numbers out;
  const std::vector<size_t> order = order_of(in[0]);
  for (size_t place = 0; place < order.size(); ++place) {
    const Numbers row = row_of(in[1], place, c.in);
    const auto expert = static_cast<int64_t>(in[0][order[place]]);
    for (int64_t i = first; i < first + count; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < c.in; ++k) sum += update_of(c, in[2], in[3], expert, i, k) * row[static_cast<size_t>(k)];
      out.push_back(kFactorScale * sum);
    }
  }
  return out;
}

// A product with all of B, or of its first rows and of the others, each by itself, side by side in the sum below.
void check_factors(const FactorCase& c) {
  check_operation({.tokens = kFactorTokens,
                   .inputs = factor_operands(c),
                   .build =
                       [=](Builder& b, const std::vector<ValueId>& in) {
                         const ops::SortedPairs sorted = ops::sort_pairs(b, in[0], c.experts);
                         const ValueId low = ops::grouped_factor_a(b, in[1], sorted.offsets, c.pairs, in[2]);
                         const auto rows = [&](const ops::FactorRows& of) {
                           return ops::grouped_factor_b(b, low, sorted.offsets, c.pairs, in[3], of, kFactorScale);
                         };
                         if (c.second == 0) return rows({0, c.out});
                         return ops::add(b, rows({0, c.out}), rows({c.second, c.out}));
                       },
                   .reference =
                       [=](const std::vector<Numbers>& in) {
                         Numbers out = factor_reference(c, in, 0, c.out);
                         if (c.second == 0) return out;
                         const Numbers more = factor_reference(c, in, c.second, c.out);
                         for (size_t i = 0; i < out.size(); ++i) out[i] += more[i];
                         return out;
                       },
                   .gradient_tolerance = 2e-5});
}

}  // namespace

TEST_CASE("each pair's row is multiplied by its expert's factors, where PEFT has them, and these get gradients") {
  check_factors({.second = 0});
  check_factors({.pairs = 1, .experts = 3, .rank = 5, .in = 70, .out = 66, .second = 0});
}

TEST_CASE("two weights may share the rows of a factor") {
  check_factors({});
  check_factors({.second = 14});
}

TEST_CASE("factors of experts without rows have no gradient") {
  const auto all = static_cast<size_t>(2 * kFactorTokens);
  check_factors({.second = 0, .chosen = Numbers(all, 4)});
}

TEST_CASE("a factor that its experts cannot share is refused") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3, 8}}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {4}}, ValueKind::kBatch);
  const ValueId factor = b.input("a", {DType::kF32, {5, 4}}, ValueKind::kBatch);
  CHECK_THROWS_AS((void)ops::grouped_factor_a(b, x, offsets, 2, factor), InputError);
  const ValueId wide = b.input("b", {DType::kF32, {6, 12}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::grouped_factor_b(b, x, offsets, 2, wide, {.first = 2, .count = 5}, 1),
                    "[grouped_factor] expected rows of a factor of 6, got 5 from row 2 on; check the model's sizes");
}
