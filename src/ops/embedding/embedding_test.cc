#include "ops/embedding/embedding.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("embedding takes rows and its gradient adds up the tokens of each") {
  constexpr int64_t kTokens = 9, kVocabulary = 5, kWidth = 70;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_operation(
        {.tokens = kTokens,
         .inputs = {{{DType::kI32, {kTokens}, true}, random_integers(kTokens, 1, kVocabulary), false},
                    {{dtype, {kVocabulary, kWidth}}, random_numbers(kVocabulary * kWidth, 2)}},
         .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::embedding(b, in[0], in[1]); },
         .reference =
             [](const std::vector<Numbers>& in) {
               Numbers out;
               for (const double id : in[0]) {
                 const auto from = in[1].begin() + static_cast<int64_t>(id) * kWidth;
                 out.insert(out.end(), from, from + kWidth);
               }
               return out;
             }});
  }
}

TEST_CASE("embedding refuses ids that are not i32 and a table that is not a matrix") {
  Graph graph;
  Builder b(graph);
  const ValueId ids = b.input("ids", {DType::kI32, {4}}, ValueKind::kBatch);
  const ValueId table = b.input("table", {DType::kF32, {5, 3}}, ValueKind::kBatch);
  const ValueId wide = b.input("wide", {DType::kI64, {4}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::embedding(b, wide, table),
                    "[embedding] expected ids as i32[4], got i64[4]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::embedding(b, ids, wide),
                    "[embedding] expected table in f32 or bf16, got i64[4]; cast it");
}
