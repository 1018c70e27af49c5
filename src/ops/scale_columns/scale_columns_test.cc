#include "ops/scale_columns/scale_columns.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// A case with inputs x and, if they are wanted, factor, bias and addend.
struct ColumnsCase {
  int64_t tokens = 0, width = 0;
  DType dtype = DType::kF32;
  bool factor = true, bias = true, addend = true;
  double shift = 0;
};

OperationCase columns_case(const ColumnsCase& c) {
  const ValueType type{c.dtype, {c.tokens, c.width}, kTokenAxis};
  OperationCase test{.tokens = c.tokens, .inputs = {{type, random_numbers(c.tokens * c.width, 1)}}};
  if (c.factor) test.inputs.push_back({{DType::kF32, {c.width}}, random_numbers(c.width, 2)});
  if (c.bias) test.inputs.push_back({{c.dtype, {c.width}}, random_numbers(c.width, 3)});
  if (c.addend) test.inputs.push_back({type, random_numbers(c.tokens * c.width, 4)});
  test.build = [=](Builder& b, const std::vector<ValueId>& in) {
    size_t next = 1;
    const ValueId factor = c.factor ? in[next++] : kNone;
    const ValueId bias = c.bias ? in[next++] : kNone;
    return ops::scale_columns(b, in[0], factor,
                              {.shift = c.shift, .bias = bias, .addend = c.addend ? in[next] : kNone});
  };
  test.reference = [=](const std::vector<Numbers>& in) {
    Numbers out = in[0];
    const auto width = static_cast<size_t>(c.width);
    for (size_t i = 0; i < out.size(); ++i) {
      size_t next = 1;
      if (c.factor) out[i] *= in[next++][i % width] + c.shift;
      if (c.bias) out[i] += in[next++][i % width];
      if (c.addend) out[i] += in[next][i];
    }
    return out;
  };
  return test;
}

}  // namespace

TEST_CASE("columns with factors, biases and addends and their gradients agree with float64") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    check_operation(columns_case({.tokens = 7, .width = 21, .dtype = dtype}));
    check_operation(columns_case({.tokens = 40, .width = 3, .dtype = dtype, .bias = false, .shift = -1}));
    check_operation(columns_case({.tokens = 5, .width = 65, .dtype = dtype, .bias = false, .addend = false}));
    check_operation(columns_case({.tokens = 5, .width = 19, .dtype = dtype, .factor = false}));
  }
  check_operation(columns_case({.tokens = 1100, .width = 5, .shift = -1}));
  check_operation(columns_case({.tokens = 3, .width = 2100, .dtype = DType::kBF16}));
}

TEST_CASE("the gradients of a factor that several matrices have add up") {
  OperationCase test = columns_case({.tokens = 9, .width = 11, .bias = false});
  test.build = [](Builder& b, const std::vector<ValueId>& in) {
    const ValueId inner = ops::scale_columns(b, in[2], in[1], {.shift = -1});
    return ops::scale_columns(b, in[0], in[1], {.addend = inner});
  };
  test.reference = [](const std::vector<Numbers>& in) {
    Numbers out = in[0];
    for (size_t i = 0; i < out.size(); ++i) out[i] = out[i] * in[1][i % 11] + in[2][i] * (in[1][i % 11] - 1);
    return out;
  };
  check_operation(test);
}

TEST_CASE("without factors columns are as with ones, bit for bit") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Graph graph{.axes = {{"tokens", 4}}};
    Builder b(graph);
    const ValueType type{dtype, {4, 13}, kTokenAxis};
    const ValueId x = b.input("x", type, ValueKind::kBatch), more = b.input("more", type, ValueKind::kBatch);
    const ValueId bias = b.input("bias", {dtype, {13}}, ValueKind::kBatch);
    const ValueId ones = b.input("ones", {DType::kF32, {13}}, ValueKind::kBatch);
    const ValueId with = ops::scale_columns(b, x, ones, {.bias = bias, .addend = more});
    const ValueId without = ops::scale_columns(b, x, kNone, {.bias = bias, .addend = more});
    const Run run(graph, {{x, random_numbers(52, 1)},
                          {more, random_numbers(52, 2)},
                          {bias, random_numbers(13, 3)},
                          {ones, Numbers(13, 1)}});
    CHECK(run.numbers(with) == run.numbers(without));
  }
}

TEST_CASE("columns refuse factors of another number or dtype") {
  Graph graph{.axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kBF16, {4, 6}, kTokenAxis}, ValueKind::kBatch);
  const ValueId fewer = b.input("fewer", {DType::kF32, {5}}, ValueKind::kBatch);
  const ValueId halves = b.input("halves", {DType::kBF16, {6}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::scale_columns(b, x, fewer),
                    "[scale_columns] expected factor as f32[6], got f32[5]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::scale_columns(b, x, halves),
                    "[scale_columns] expected factor as f32[6], got bf16[6]; cast it or check the model's sizes");
}
