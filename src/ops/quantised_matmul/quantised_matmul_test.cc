#include "ops/quantised_matmul/quantised_matmul.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "ops/matmul/cpu/product.h"
#include "ops/matmul/matmul.h"
#include "ops/quantised_matmul/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

std::vector<QuantisedFormat> all_formats() {
  std::vector<QuantisedFormat> result;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    result.push_back({WeightCoding::kNf4, 64, true, dtype});
    result.push_back({WeightCoding::kFp4, 32, true, dtype});
    result.push_back({WeightCoding::kNf4, 128, false, dtype});
    result.push_back({WeightCoding::kInt8, 64, false, dtype});
  }
  result.push_back(kMxfp4Format);
  for (const QuantisedFormat& format : {fp8_format(1, 0), fp8_format(16, 32), fp8_format(7, 40)})
    result.push_back(format);
  return result;
}

// Some formats suffice, since the bits of a product show the rest.
std::vector<QuantisedFormat> some_formats() {
  return {{WeightCoding::kNf4, 64, true, DType::kBF16},
          {WeightCoding::kFp4, 32, false, DType::kF16},
          {WeightCoding::kInt8, 64, false, DType::kF32},
          kMxfp4Format,
          fp8_format(1, 0),
          fp8_format(8, 16)};
}

// Returns the paths: a CPU without dot products of bf16 widens it, and so may one that has them.
std::vector<cpu::Bf16Path> bf16_paths() {
  std::vector<cpu::Bf16Path> paths = {cpu::Bf16Path::kWidenToF32};
  if (cpu::has_native_bf16_dot()) paths.push_back(cpu::Bf16Path::kNativeDot);
  return paths;
}

ValueId product(Builder& b, const std::vector<ValueId>& in, const CodedWeight& weight,
                const ops::QuantisedMatmulOptions& options) {
  const std::vector<ValueId> parts(in.begin() + 1, in.begin() + 1 + std::ssize(weight.parts));
  return ops::quantised_matmul(b, in[0], {parts, weight.rows, weight.columns, weight.format}, options);
}

// Computes x op(W) with the decoded elements.
Numbers decoded_product(const Numbers& x, const CodedWeight& weight, bool transpose) {
  const int64_t n = transpose ? weight.rows : weight.columns, k = transpose ? weight.columns : weight.rows;
  const int64_t m = std::ssize(x) / k;
  Numbers out(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m * n; ++i) {
    double sum = 0;
    for (int64_t l = 0; l < k; ++l) {
      const int64_t at = transpose ? i % n * k + l : l * n + i % n;
      sum += nth(x, i / n * k + l) * nth(weight.elements, at);
    }
    nth(out, i) = sum;
  }
  return out;
}

}  // namespace

TEST_CASE("a product with codes and its gradient agree with float64 for every format, both ways round") {
  for (const QuantisedFormat& format : some_formats()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const bool transpose : {false, true}) {
        CAPTURE(static_cast<int>(format.coding));
        CAPTURE(name_of(format.weight_dtype));
        CAPTURE(name_of(dtype));
        CAPTURE(transpose);
        constexpr int64_t tokens = 5;
        const CodedWeight weight(format, 19, 23, dtype);  // blocks run over the ends of rows
        const int64_t k = transpose ? weight.columns : weight.rows, n = transpose ? weight.rows : weight.columns;
        OperationCase test{.tokens = tokens,
                           .inputs = {{{dtype, {tokens, k}, kTokenAxis}, random_numbers(tokens * k, 1)}},
                           .build =
                               [&](Builder& b, const std::vector<ValueId>& in) {
                                 return product(b, in, weight,
                                                {.transpose = transpose, .alpha = 0.75, .addend = in.back()});
                               },
                           .reference =
                               [&](const std::vector<Numbers>& in) {
                                 Numbers out = decoded_product(in[0], weight, transpose);
                                 for (size_t i = 0; i < out.size(); ++i) out[i] = 0.75 * out[i] + in.back()[i];
                                 return out;
                               }};
        test.inputs.insert(test.inputs.end(), weight.parts.begin(), weight.parts.end());
        test.inputs.push_back({{dtype, {tokens, n}, kTokenAxis}, random_numbers(tokens * n, 2)});
        check_operation(test);
      }
    }
  }
}

namespace {

struct CodedCase {
  int64_t tokens, rows, columns;
  bool transpose;
  double scale_unit = 1;
};

// Compares the product with codes and the one with decoded elements, by every instruction set.
void check_bits(const CodedCase& size, const QuantisedFormat& format, DType dtype) {
  CAPTURE(size.tokens);
  CAPTURE(size.columns);
  CAPTURE(static_cast<int>(format.coding));
  CAPTURE(name_of(format.weight_dtype));
  CAPTURE(name_of(dtype));
  CAPTURE(size.transpose);
  const CodedWeight weight(format, size.rows, size.columns, dtype, size.scale_unit);
  const int64_t k = size.transpose ? size.columns : size.rows;
  Graph graph;
  Builder b(graph);
  graph.axes = {{"tokens", size.tokens}};
  std::map<ValueId, Numbers> inputs;
  const auto add = [&](const std::string& name, const ValueType& type, const Numbers& numbers) {
    const ValueId id = b.input(name, type, ValueKind::kBatch);
    inputs[id] = numbers;
    return id;
  };
  std::vector<ValueId> in = {
      add("x", {dtype, {size.tokens, k}, kTokenAxis}, rounded(random_numbers(size.tokens * k, 3), dtype))};
  for (const OperandCase& part : weight.parts)
    in.push_back(add("part" + std::to_string(in.size()), part.type, part.numbers));
  const ValueId dense = add("w", {dtype, {size.rows, size.columns}}, weight.elements);
  constexpr int64_t kRank = 6;
  const int64_t n = size.transpose ? size.rows : size.columns;
  const Shape factor = size.transpose ? Shape{n, kRank} : Shape{kRank, n};
  const ops::ProductTail tail{
      .a = add("z", {dtype, {size.tokens, kRank}, kTokenAxis}, rounded(random_numbers(size.tokens * kRank, 4), dtype)),
      .b = add("b", {dtype, factor}, rounded(random_numbers(n * kRank, 5), dtype)),
      .alpha = 0.7};
  const ValueId coded = product(b, in, weight, {.transpose = size.transpose, .tail = tail});
  const ValueId plain = ops::matmul(b, in[0], dense, {.transpose_b = size.transpose, .tail = tail});
  b.result(coded);
  b.result(plain);
  for (const cpu::Bf16Path path : bf16_paths()) {
    cpu::set_bf16_path(path);
    for (const int threads : {1, 2}) {
      const Run run(graph, inputs, {.threads = threads});
      CHECK(run.numbers(coded) == run.numbers(plain));
    }
    for_each_instruction_set([&] {
      const Run run(graph, inputs);
      CHECK(run.numbers(coded) == run.numbers(plain));
    });
  }
  cpu::set_bf16_path(std::nullopt);
}

}  // namespace

TEST_CASE("a product with codes has the bits of the product with what they stand for") {
  for (const auto& [tokens, rows, columns] :
       {std::array<int64_t, 3>{1, 96, 320}, {70, 130, 576}, {7, 33, 1030}, {300, 17, 24}}) {
    for (const QuantisedFormat& format : all_formats()) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        for (const bool transpose : {false, true}) check_bits({tokens, rows, columns, transpose}, format, dtype);
      }
    }
  }
}

TEST_CASE("a product of few rows has the bits of the product with what codes stand for") {
  // The sizes have whole panels and the rest of one, whole depths and halves of one, and more scales than one depth
  // has.
  for (const auto& [tokens, rows, columns] :
       {std::array<int64_t, 3>{2, 16, 64}, {3, 40, 576}, {6, 33, 960}, {17, 24, 2304}, {1, 48, 9216}}) {
    for (const QuantisedFormat& format : all_formats()) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) check_bits({tokens, rows, columns, true}, format, dtype);
    }
  }
}

TEST_CASE("a product of few rows has the same bits where elements are too small to be normal numbers") {
  for (const QuantisedFormat& format : all_formats()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) check_bits({2, 16, 128, true, 1e-37}, format, dtype);
  }
}

TEST_CASE("a weight may be decoded in pieces, wherever they begin") {
  constexpr int64_t rows = 13, columns = 97;
  for (const QuantisedFormat& format : all_formats()) {
    const CodedWeight weight(format, rows, columns, DType::kF32);
    // Lists the parts as the values of a graph.
    std::vector<std::vector<std::byte>> contents;
    std::vector<TensorView> views;
    for (const OperandCase& part : weight.parts) {
      std::vector<std::byte>& bytes = contents.emplace_back();
      for (const double number : part.numbers) {
        const auto put = [&](auto value) {
          const auto* from = reinterpret_cast<const std::byte*>(&value);
          bytes.insert(bytes.end(), from, from + sizeof(value));
        };
        if (part.type.dtype == DType::kF32) {
          put(static_cast<float>(number));
        } else {
          put(static_cast<uint8_t>(static_cast<int>(number)));
        }
      }
    }
    for (size_t i = 0; i < contents.size(); ++i)
      views.push_back({contents[i].data(), weight.parts[i].type.dtype, weight.parts[i].type.shape});
    const ops::QuantisedWeight coded = ops::quantised_weight(format, rows, columns, views);
    for (const cpu::MatrixRange& range :
         {cpu::MatrixRange{0, rows, 0, columns}, {3, 4, 1, 96}, {12, 1, 5, 64}, {1, 11, 33, 31}, {7, 1, 96, 1}}) {
      const int64_t stride = range.columns + 3;
      std::vector<float> out(static_cast<size_t>(range.rows * stride), -7);
      ops::decode(coded, range, DType::kF32, stride, out.data());
      for (int64_t i = 0; i < range.rows; ++i) {
        for (int64_t j = 0; j < stride; ++j) {
          const auto at = static_cast<size_t>((range.row + i) * columns + range.column + j);
          const double expected = j < range.columns ? weight.elements[at] : -7;
          REQUIRE(static_cast<double>(nth(out, i * stride + j)) == expected);
        }
      }
    }
  }
}

TEST_CASE("parts that are not those of the format are refused") {
  Graph graph;
  Builder b(graph);
  graph.axes = {{"tokens", 4}};
  const ValueId x = b.input("x", {DType::kF32, {4, 64}, kTokenAxis}, ValueKind::kBatch);
  const ValueId codes = b.input("codes", {DType::kU8, {64 * 8}}, ValueKind::kFrozenWeight);
  const ValueId scales = b.input("scales", {DType::kF32, {16}}, ValueKind::kFrozenWeight);
  const ValueId few = b.input("few", {DType::kF32, {15}}, ValueKind::kFrozenWeight);
  const QuantisedFormat format{WeightCoding::kNf4, 64, false, DType::kF32};
  const auto multiply = [&](std::vector<ValueId> parts, const QuantisedFormat& as) {
    (void)ops::quantised_matmul(b, x, {parts, 16, 64, as});
  };
  CHECK_NOTHROW(multiply({codes, scales}, format));
  CHECK_THROWS_WITH_AS(multiply({codes, few}, format),
                       "[quantised_matmul] expected scales as f32[16], got f32[15]; cast it or check the model's sizes",
                       InputError);
  CHECK_THROWS_AS(multiply({codes}, format), InputError);
  QuantisedFormat odd = format;
  odd.block_size = 48;
  CHECK_THROWS_WITH_AS(multiply({codes, scales}, odd), doctest::Contains("power of two from 32 to 4096, got 48"),
                       InputError);
  odd = format;
  odd.weight_dtype = DType::kI32;
  CHECK_THROWS_AS(multiply({codes, scales}, odd), InputError);
}
