#include "ops/combine_rows/combine_rows.h"

#include <doctest/doctest.h>

#include "ops/sort_pairs/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("the rows of each token's pairs are added up, with and without an addend") {
  constexpr int64_t kTokens = 9, kExperts = 5;
  const auto check_sizes = [](int64_t k, int64_t width, DType dtype, bool has_addend) {
    OperationCase test{
        .tokens = kTokens,
        .inputs = {experts_operand(kTokens, k, kExperts),
                   {{dtype, {kTokens, k * width}, kTokenAxis}, random_numbers(kTokens * k * width, 2)}},
        .build =
            [](Builder& b, const std::vector<ValueId>& in) {
              return ops::combine_rows(b, in[1], ops::sort_pairs(b, in[0], kExperts), in.size() > 2 ? in[2] : kNone);
            },
        .reference =
            [=](const std::vector<Numbers>& in) {
              Numbers out =
                  in.size() > 2 ? in[2] : Numbers(in[0].size() / static_cast<size_t>(k) * static_cast<size_t>(width));
              const std::vector<size_t> order = order_of(in[0]);
              for (size_t place = 0; place < order.size(); ++place) {
                const Numbers row = row_of(in[1], place, width);
                const size_t at = order[place] / static_cast<size_t>(k) * row.size();
                for (size_t i = 0; i < row.size(); ++i) out[at + i] += row[i];
              }
              return out;
            }};
    if (has_addend) test.inputs.push_back({{dtype, {kTokens, width}, kTokenAxis}, random_numbers(kTokens * width, 3)});
    check_operation(test);
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_sizes(3, 70, dtype, false);
    check_sizes(3, 70, dtype, true);
    check_sizes(1, 2100, dtype, true);
    check_sizes(2, 5, dtype, false);
  }
}
