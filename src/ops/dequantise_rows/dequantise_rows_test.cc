#include "ops/dequantise_rows/dequantise_rows.h"

#include <doctest/doctest.h>

#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("rows of codes are multiplied by their scales") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t columns : {1, 7, 32, 261}) {
      CAPTURE(columns);
      Numbers codes = random_integers(5 * columns, 1, 255);
      for (double& code : codes) code -= 127;
      check_operation(
          {.inputs = {{{DType::kI8, {5, columns}}, codes, false}, {{DType::kF32, {5}}, random_numbers(5, 2), false}},
           .build = [&](Builder& b,
                        const std::vector<ValueId>& in) { return ops::dequantise_rows(b, in[0], in[1], dtype); },
           .reference =
               [&](const std::vector<Numbers>& in) {
                 Numbers out = in[0];
                 for (size_t i = 0; i < out.size(); ++i) out[i] *= in[1][i / static_cast<size_t>(columns)];
                 return out;
               }});
    }
  }
}

TEST_CASE("what is no codes with a scale a row is refused") {
  Graph graph;
  Builder b(graph);
  const ValueId codes = b.input("codes", {DType::kI8, {3, 4}}, ValueKind::kFrozenWeight);
  const ValueId wide = b.input("wide", {DType::kF32, {3, 4}}, ValueKind::kFrozenWeight);
  const ValueId scales = b.input("scales", {DType::kF32, {3}}, ValueKind::kFrozenWeight);
  const ValueId columns = b.input("columns", {DType::kF32, {4}}, ValueKind::kFrozenWeight);
  CHECK_THROWS((void)ops::dequantise_rows(b, wide, scales, DType::kF32));
  CHECK_THROWS((void)ops::dequantise_rows(b, codes, columns, DType::kF32));
  CHECK_THROWS((void)ops::dequantise_rows(b, codes, scales, DType::kI32));
}
