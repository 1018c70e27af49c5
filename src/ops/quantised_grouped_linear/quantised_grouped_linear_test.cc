#include "ops/quantised_grouped_linear/quantised_grouped_linear.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/index.h"
#include "ops/quantised_matmul/testing.h"
#include "ops/sort_pairs/sort_pairs.h"
#include "ops/sort_pairs/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kCodedTokens = 11;

struct CodedExperts {
  int64_t pairs = 2, experts = 3, in = 23, out = 19;  // blocks run over the ends of rows
  int64_t together = 2;                               // experts of an operation
  DType dtype = DType::kF32;
  QuantisedFormat format;
  bool are_in_by_out = false;

  [[nodiscard]] Shape shape() const { return are_in_by_out ? Shape{in, out} : Shape{out, in}; }
  // Returns the place of an element in a weight.
  [[nodiscard]] int64_t place_of(int64_t o, int64_t i) const { return are_in_by_out ? i * out + o : o * in + i; }
  [[nodiscard]] std::vector<OperandCase> rows() const {
    return {experts_operand(kCodedTokens, pairs, experts),
            {{dtype, {kCodedTokens, pairs * in}, kTokenAxis},
             rounded(random_numbers(kCodedTokens * pairs * in, 2), dtype)}};
  }
  [[nodiscard]] std::vector<CodedWeight> weights() const {
    std::vector<CodedWeight> result;
    for (int64_t e = 0; e < experts; ++e)
      result.emplace_back(format, shape()[0], shape()[1], dtype, 1.0, 20 + 3 * static_cast<uint64_t>(e));
    return result;
  }
};

std::vector<CodedExperts> coded_cases() {
  std::vector<CodedExperts> result;
  for (const QuantisedFormat& format : {QuantisedFormat{WeightCoding::kNf4, 64, true, DType::kBF16},
                                        {WeightCoding::kFp4, 32, false, DType::kF16},
                                        {WeightCoding::kInt8, 64, false, DType::kF32},
                                        kMxfp4Format,
                                        fp8_format(16, 8)})
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const bool are_in_by_out : {false, true})
        result.push_back({.dtype = dtype, .format = format, .are_in_by_out = are_in_by_out});
  return result;
}

// Appends the product with the codes of all experts, whose parts follow the experts of tokens and the rows.
ValueId append_coded_products(Builder& b, const std::vector<ValueId>& in, const CodedExperts& c) {
  const ops::SortedPairs sorted = ops::sort_pairs(b, in[0], c.experts);
  const Shape shape = c.shape();
  const int64_t parts = std::ssize(ops::quantised_parts(c.format, shape[0], shape[1]));
  ValueId result = kNone;
  for (int64_t first = 0; first < c.experts; first += c.together) {
    const int64_t end = std::min(c.experts, first + c.together);
    const std::vector<ValueId> own(in.begin() + 2 + first * parts, in.begin() + 2 + end * parts);
    result = ops::quantised_grouped_linear(b, in[1], sorted.offsets, c.pairs, {own, shape[0], shape[1], c.format},
                                           {.first_expert = first, .addend = result, .are_in_by_out = c.are_in_by_out});
  }
  return result;
}

Numbers coded_reference(const CodedExperts& c, const std::vector<CodedWeight>& weights,
                        const std::vector<Numbers>& in) {
  Numbers out;
  const std::vector<size_t> order = order_of(in[0]);
  for (size_t place = 0; place < order.size(); ++place) {
    const Numbers row = row_of(in[1], place, c.in);
    const Numbers& weight = weights[static_cast<size_t>(in[0][order[place]])].elements;
    for (int64_t o = 0; o < c.out; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < c.in; ++i) sum += nth(row, i) * nth(weight, c.place_of(o, i));
      out.push_back(sum);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("rows are multiplied by what their expert's codes stand for, and get its gradient") {
  for (const CodedExperts& c : coded_cases()) {
    CAPTURE(static_cast<int>(c.format.coding));
    CAPTURE(name_of(c.dtype));
    CAPTURE(c.are_in_by_out);
    const std::vector<CodedWeight> weights = c.weights();
    OperationCase test{
        .tokens = kCodedTokens,
        .inputs = c.rows(),
        .build = [&](Builder& b, const std::vector<ValueId>& in) { return append_coded_products(b, in, c); },
        .reference = [&](const std::vector<Numbers>& in) { return coded_reference(c, weights, in); }};
    for (const CodedWeight& weight : weights)
      test.inputs.insert(test.inputs.end(), weight.parts.begin(), weight.parts.end());
    check_operation(test);
  }
}

TEST_CASE("a product with experts' codes has the bits of the product with what they stand for") {
  for (CodedExperts c : coded_cases()) {
    c.experts = 5;
    c.in = 128;
    c.out = 70;
    CAPTURE(static_cast<int>(c.format.coding));
    CAPTURE(name_of(c.dtype));
    CAPTURE(c.are_in_by_out);
    Graph graph;
    graph.axes = {{"tokens", kCodedTokens}};
    Builder b(graph);
    std::map<ValueId, Numbers> numbers;
    const auto add = [&](const OperandCase& operand) {
      const ValueId id = b.input(fmt::format("in{}", numbers.size()), operand.type, ValueKind::kBatch);
      numbers[id] = operand.numbers;
      return id;
    };
    std::vector<ValueId> coded, decoded;
    for (const OperandCase& operand : c.rows()) coded.push_back(add(operand));
    for (const CodedWeight& weight : c.weights()) {
      decoded.push_back(add({{c.dtype, c.shape()}, weight.elements}));
      for (const OperandCase& part : weight.parts) coded.push_back(add(part));
    }
    const ValueId of_codes = append_coded_products(b, coded, c);
    const ops::SortedPairs sorted = ops::sort_pairs(b, coded[0], c.experts);
    const ValueId of_elements =
        ops::grouped_linear(b, coded[1], sorted.offsets, c.pairs, decoded, {.are_in_by_out = c.are_in_by_out});
    b.result(of_codes);
    b.result(of_elements);
    for (const int threads : {1, 2}) {
      const Run run(graph, numbers, {.threads = threads});
      const bool same_bits = run.numbers(of_codes) == run.numbers(of_elements);
      CHECK(same_bits);
    }
  }
}
