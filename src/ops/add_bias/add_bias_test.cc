#include "ops/add_bias/add_bias.h"

#include <doctest/doctest.h>

#include <utility>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("add_bias adds to every row and its gradient sums the rows") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [tokens, width] : {std::pair<int64_t, int64_t>{5, 19}, {70, 19}, {20, 300}}) {
      check_operation(
          {.tokens = tokens,
           .inputs = {{{dtype, {tokens, width}, true}, random_numbers(tokens * width, 1)},
                      {{dtype, {width}}, random_numbers(width, 2)}},
           .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::add_bias(b, in[0], in[1]); },
           .reference =
               [](const std::vector<Numbers>& in) {
                 Numbers out = in[0];
                 for (size_t i = 0; i < out.size(); ++i) out[i] += in[1][i % in[1].size()];
                 return out;
               }});
    }
  }
}

TEST_CASE("add_bias refuses a bias of another width") {
  Graph graph{.tokens = 4};
  Builder b(graph);
  const ValueId y = b.input("y", {DType::kF32, {4, 3}, true}, ValueKind::kBatch);
  const ValueId bias = b.input("bias", {DType::kF32, {4}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::add_bias(b, y, bias),
                    "[add_bias] expected bias as f32[3], got f32[4]; cast it or check the model's sizes");
}
