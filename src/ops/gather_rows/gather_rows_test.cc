#include "ops/gather_rows/gather_rows.h"

#include <doctest/doctest.h>

#include "ops/sort_pairs/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("rows of tokens are gathered by expert, and their gradients added up again") {
  constexpr int64_t kTokens = 9, kExperts = 5;
  const auto check_sizes = [](int64_t k, int64_t width, DType dtype) {
    check_operation({.tokens = kTokens,
                     .inputs = {experts_operand(kTokens, k, kExperts),
                                {{dtype, {kTokens, width}, kTokenAxis}, random_numbers(kTokens * width, 2)}},
                     .build =
                         [](Builder& b, const std::vector<ValueId>& in) {
                           return ops::gather_rows(b, in[1], ops::sort_pairs(b, in[0], kExperts));
                         },
                     .reference =
                         [=](const std::vector<Numbers>& in) {
                           Numbers out;
                           for (const size_t pair : order_of(in[0]))
                             append_row(out, row_of(in[1], pair / static_cast<size_t>(k), width));
                           return out;
                         }});
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_sizes(3, 70, dtype);
    check_sizes(1, 2100, dtype);
    check_sizes(2, 5, dtype);
  }
}
