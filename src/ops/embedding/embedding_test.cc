#include "ops/embedding/embedding.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/add/add.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("embedding takes rows and its gradient adds up the tokens of each") {
  constexpr int64_t kVocabulary = 5;
  const auto check_sizes = [](int64_t tokens, int64_t width, DType dtype, double scale = 1) {
    check_operation(
        {.tokens = tokens,
         .inputs = {{{DType::kI32, {tokens}, kTokenAxis}, random_integers(tokens, 1, kVocabulary), false},
                    {{dtype, {kVocabulary, width}}, random_numbers(kVocabulary * width, 2)}},
         .build = [scale](Builder& b,
                          const std::vector<ValueId>& in) { return ops::embedding(b, in[0], in[1], {.scale = scale}); },
         .reference =
             [width, scale](const std::vector<Numbers>& in) {
               Numbers out;
               for (const double id : in[0]) {
                 const auto from = in[1].begin() + static_cast<int64_t>(id) * width;
                 out.insert(out.end(), from, from + width);
               }
               for (double& number : out) number *= scale;
               return out;
             }});
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_sizes(9, 70, dtype);
    check_sizes(70, 12, dtype);
    check_sizes(3, 2100, dtype);
    check_sizes(9, 70, dtype, 5.65625);  // which bf16 has, too
  }
}

TEST_CASE("the row of padding_idx gets no gradient by a look-up, and keeps that of other uses") {
  constexpr int64_t kVocabulary = 5, kPadding = 3;
  const auto check_sizes = [](int64_t tokens, int64_t width, DType dtype, double scale = 1) {
    const Numbers table = rounded(random_numbers(kVocabulary * width, 2), dtype);
    check_operation({.tokens = tokens,
                     .inputs = {{{DType::kI32, {tokens}, kTokenAxis}, random_integers(tokens, 1, kVocabulary), false},
                                {{dtype, {kVocabulary, width}}, table}},
                     .build =
                         [scale](Builder& b, const std::vector<ValueId>& in) {
                           const ops::EmbeddingOptions options{.scale = scale, .padding_idx = kPadding};
                           return ops::add(b, ops::embedding(b, in[0], in[1], options),
                                           ops::embedding(b, in[0], in[1]));
                         },
                     // To the first look-up the row is a constant.
                     .reference =
                         [width, scale, table](const std::vector<Numbers>& in) {
                           Numbers out;
                           for (const double id : in[0]) {
                             for (int64_t i = 0; i < width; ++i) {
                               const auto at = static_cast<size_t>(static_cast<int64_t>(id) * width + i);
                               out.push_back((id == kPadding ? table : in[1])[at] * scale + in[1][at]);
                             }
                           }
                           return out;
                         }});
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_sizes(9, 70, dtype);
    check_sizes(70, 12, dtype);
    check_sizes(3, 2100, dtype);
  }
  check_sizes(9, 70, DType::kF32, 5.65625);
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
