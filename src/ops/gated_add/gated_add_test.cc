#include "ops/gated_add/gated_add.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// Makes a case with sequences and a modulation of three parts for the first `rows` of them.
OperationCase gated_case(int64_t tokens, int64_t width, int64_t rows, const Numbers& offsets, int64_t part,
                         DType dtype) {
  const ValueType type{dtype, {tokens, width}, kTokenAxis};
  return {.tokens = tokens,
          .rows = rows,
          .inputs = {{type, random_numbers(tokens * width, 1)},
                     {type, random_numbers(tokens * width, 2)},
                     {{DType::kF32, {rows, 3 * width}, kRowAxis}, random_numbers(rows * 3 * width, 3)},
                     {{DType::kI32, {std::ssize(offsets)}}, offsets, false, true}},
          .build =
              [=](Builder& b, const std::vector<ValueId>& in) {
                return ops::gated_add(b, in[0], in[1], {in[2], in[3]}, part);
              },
          .reference =
              [=](const std::vector<Numbers>& in) {
                Numbers out = in[0];
                const auto columns = static_cast<size_t>(width);
                for (size_t row = 0; row < in[2].size() / columns / 3; ++row) {
                  const auto begin = static_cast<size_t>(in[3][row]), end = static_cast<size_t>(in[3][row + 1]);
                  for (size_t i = begin * columns; i < end * columns; ++i) {
                    const size_t at = row * 3 * columns + static_cast<size_t>(part) * columns + i % columns;
                    out[i] += in[1][i] * in[2][at];
                  }
                }
                return out;
              }};
}

}  // namespace

TEST_CASE("a gated residual and its gradients agree with float64: several sequences, empty ones, blocks of them") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    check_operation(gated_case(9, 21, 3, {0, 4, 4, 7, 9}, 1, dtype));
    check_operation(gated_case(80, 5, 2, {0, 37, 80}, 2, dtype));
  }
  check_operation(gated_case(1100, 3, 3, {0, 30, 900, 1100}, 0, DType::kF32));
  check_operation(gated_case(4, 2100, 1, {0, 4}, 0, DType::kBF16));
}

TEST_CASE("the gradients of a modulation that several operations read add up") {
  OperationCase test = gated_case(9, 21, 3, {0, 4, 4, 7, 9}, 1, DType::kF32);
  const auto first = test.reference;
  const auto second = gated_case(9, 21, 3, {0, 4, 4, 7, 9}, 2, DType::kF32).reference;
  test.build = [](Builder& b, const std::vector<ValueId>& in) {
    const ops::Modulation modulation{in[2], in[3]};
    return ops::gated_add(b, ops::gated_add(b, in[0], in[1], modulation, 1), in[1], modulation, 2);
  };
  test.reference = [=](const std::vector<Numbers>& in) { return second({first(in), in[1], in[2], in[3]}); };
  check_operation(test);
}

TEST_CASE("a gated residual refuses parts that are not there and offsets of too few sequences") {
  Graph graph{.axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kBF16, {4, 6}, kTokenAxis}, ValueKind::kBatch);
  const ValueId rows = b.input("rows", {DType::kF32, {2, 12}}, ValueKind::kBatch);
  const ValueId half = b.input("half", {DType::kBF16, {2, 12}}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {3}}, ValueKind::kBatch);
  const ValueId fewer = b.input("fewer", {DType::kI32, {2}}, ValueKind::kBatch);
  CHECK_NOTHROW((void)ops::gated_add(b, x, x, {rows, offsets}, 1));
  CHECK_THROWS_WITH((void)ops::gated_add(b, x, x, {rows, offsets}, 2),
                    "[gated_add] expected one of the modulation's 2 parts, got number 2; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::gated_add(b, x, x, {rows, fewer}, 0),
                    "[gated_add] expected seq_offsets as i32 of at least 3, got i32[2]; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::gated_add(b, x, x, {half, offsets}, 0),
                    "[gated_add] expected modulation in f32, got bf16[2, 12]; cast it");
}
