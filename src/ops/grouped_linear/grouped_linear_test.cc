#include "ops/grouped_linear/grouped_linear.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "ops/sort_pairs/sort_pairs.h"
#include "ops/sort_pairs/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kGroupedTokens = 11;

struct GroupedCase {
  int64_t pairs = 2, experts = 5, in = 12, out = 20;
  int64_t together = 5;  // experts of an operation
  DType dtype = DType::kF32, weights = DType::kF32;
  Numbers chosen = {};  // the experts of tokens; empty: random ones
  bool are_in_by_out = false;
};

// Appends the product with all experts, `together` in each operation.
ValueId append_products(Builder& b, ValueId x, ValueId experts, const std::vector<ValueId>& weights, int64_t pairs,
                        int64_t together, bool are_in_by_out = false) {
  const auto count = std::ssize(weights);
  const ops::SortedPairs sorted = ops::sort_pairs(b, experts, count);
  ValueId result = kNone;
  for (int64_t first = 0; first < count; first += together) {
    const std::vector<ValueId> own(weights.begin() + first, weights.begin() + std::min(count, first + together));
    result = ops::grouped_linear(b, x, sorted.offsets, pairs, own,
                                 {.first_expert = first, .addend = result, .are_in_by_out = are_in_by_out});
  }
  return result;
}

// Returns the operands: experts of tokens, rows, and a weight for each expert.
std::vector<OperandCase> operands_of(const GroupedCase& c) {
  std::vector<OperandCase> operands = {
      experts_operand(kGroupedTokens, c.pairs, c.experts),
      {{c.dtype, {kGroupedTokens, c.pairs * c.in}, kTokenAxis}, random_numbers(kGroupedTokens * c.pairs * c.in, 2)}};
  if (!c.chosen.empty()) operands[0].numbers = c.chosen;
  for (int64_t e = 0; e < c.experts; ++e)
    operands.push_back({{c.weights, c.are_in_by_out ? Shape{c.in, c.out} : Shape{c.out, c.in}},
                        random_numbers(c.out * c.in, 10 + static_cast<uint64_t>(e))});
  return operands;
}

Numbers grouped_reference(const GroupedCase& c, const std::vector<Numbers>& in) {
  Numbers out;
  const std::vector<size_t> order = order_of(in[0]);
  for (size_t place = 0; place < order.size(); ++place) {
    const Numbers row = row_of(in[1], place, c.in);
    const Numbers& weight = in[2 + static_cast<size_t>(in[0][order[place]])];
    for (int64_t o = 0; o < c.out; ++o) {
      const auto at = [&](int64_t i) { return static_cast<size_t>(c.are_in_by_out ? i * c.out + o : o * c.in + i); };
      double sum = 0;
      for (int64_t i = 0; i < c.in; ++i) sum += row[static_cast<size_t>(i)] * weight[at(i)];
      out.push_back(sum);
    }
  }
  return out;
}

void check_grouped(const GroupedCase& c) {
  check_operation(
      {.tokens = kGroupedTokens,
       .inputs = operands_of(c),
       .build =
           [=](Builder& b, const std::vector<ValueId>& in) {
             return append_products(b, in[1], in[0], {in.begin() + 2, in.end()}, c.pairs, c.together, c.are_in_by_out);
           },
       .reference = [=](const std::vector<Numbers>& in) { return grouped_reference(c, in); }});
}

// Returns what operations with `together` experts each make, if the weights of `lost` experts were not loaded.
Numbers product_of(const GroupedCase& c, int64_t together, int threads, const std::set<int64_t>& lost = {}) {
  Graph graph;
  graph.axes = {{"tokens", kGroupedTokens}};
  Builder b(graph);
  std::vector<ValueId> inputs;
  std::map<ValueId, Numbers> numbers;
  for (const OperandCase& operand : operands_of(c)) {
    inputs.push_back(b.input(fmt::format("in{}", inputs.size()), operand.type, ValueKind::kBatch));
    numbers[inputs.back()] = operand.numbers;
  }
  for (const int64_t expert : lost)
    for (double& number : numbers[inputs[static_cast<size_t>(2 + expert)]]) number = std::nan("");
  const ValueId y = append_products(b, inputs[1], inputs[0], {inputs.begin() + 2, inputs.end()}, c.pairs, together);
  return Run(graph, numbers, {.threads = threads, .in_place = threads > 1}).numbers(y);
}

}  // namespace

TEST_CASE("rows are multiplied by their expert's weight, and weights get the gradients of their rows") {
  check_grouped({});
  check_grouped({.together = 2});
  check_grouped({.dtype = DType::kBF16, .weights = DType::kBF16});
  check_grouped({.together = 3, .dtype = DType::kBF16, .weights = DType::kBF16});
  check_grouped({.pairs = 1, .experts = 3, .in = 70, .out = 66, .together = 2});
  check_grouped({.together = 2, .are_in_by_out = true});
  check_grouped({.in = 70, .out = 66, .dtype = DType::kBF16, .weights = DType::kBF16, .are_in_by_out = true});
}

TEST_CASE("all rows may be one expert's, and experts may have none or one") {
  const auto all = static_cast<size_t>(2 * kGroupedTokens);
  check_grouped({.chosen = Numbers(all, 0)});
  check_grouped({.together = 2, .chosen = Numbers(all, 4)});
  Numbers one(all, 3);
  one[5] = 1;
  check_grouped({.together = 2, .chosen = one});
}

TEST_CASE("the weights of experts that no token has chosen are not read") {
  GroupedCase c{.dtype = DType::kBF16, .weights = DType::kBF16, .chosen = Numbers(2 * kGroupedTokens, 1)};
  c.chosen[7] = 3;
  for (const int64_t together : {1, 2, 5}) {
    CAPTURE(together);
    const bool same_bits = product_of(c, together, 2, {0, 2, 4}) == product_of(c, together, 2);
    CHECK(same_bits);
  }
}

TEST_CASE("the number of experts of an operation, and of threads, changes no bit of a product of experts") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const GroupedCase c{.experts = 7, .in = 40, .out = 33, .dtype = dtype, .weights = dtype};
    const Numbers whole = product_of(c, 7, 1);
    for (const int64_t together : {1, 2, 3, 4, 7}) {
      CAPTURE(together);
      for (const int threads : {1, 2, 16}) {
        const bool same_bits = product_of(c, together, threads) == whole;
        CHECK(same_bits);
      }
    }
  }
}

TEST_CASE("grouped_linear refuses weights of experts that are not there") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3, 8}}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {3}}, ValueKind::kBatch);
  const ValueId weight = b.input("w", {DType::kF32, {5, 4}}, ValueKind::kBatch);
  const std::vector<ValueId> weights = {weight, weight};
  CHECK_THROWS_WITH((void)ops::grouped_linear(b, x, offsets, 2, weights, {.first_expert = 1}),
                    "[grouped_linear] expected weights of 2 experts, got those of 1 to 2; check the model's sizes");
}
