#include "ops/weigh_rows/weigh_rows.h"

#include <doctest/doctest.h>

#include "ops/sort_pairs/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("rows of pairs are multiplied by their weights, sorted and in their own order") {
  constexpr int64_t kTokens = 9, kExperts = 5;
  const auto check_sizes = [](int64_t k, int64_t width, DType dtype, bool is_sorted) {
    check_operation({.tokens = kTokens,
                     .inputs = {experts_operand(kTokens, k, kExperts),
                                {{dtype, {kTokens, k * width}, kTokenAxis}, random_numbers(kTokens * k * width, 2)},
                                {{DType::kF32, {kTokens, k}, kTokenAxis}, random_numbers(kTokens * k, 3)}},
                     .build =
                         [=](Builder& b, const std::vector<ValueId>& in) {
                           const ops::SortedPairs pairs = ops::sort_pairs(b, in[0], kExperts);
                           return ops::weigh_rows(b, in[1], in[2], is_sorted ? pairs : ops::SortedPairs());
                         },
                     .reference =
                         [=](const std::vector<Numbers>& in) {
                           Numbers out = in[1];
                           const std::vector<size_t> order = order_of(in[0]);
                           for (size_t i = 0; i < out.size(); ++i) {
                             const size_t place = i / static_cast<size_t>(width);
                             out[i] *= in[2][is_sorted ? order[place] : place];
                           }
                           return out;
                         }});
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_sizes(3, 70, dtype, true);
    check_sizes(1, 2100, dtype, true);
    check_sizes(2, 5, dtype, false);
    check_sizes(1, 70, dtype, false);
  }
}
