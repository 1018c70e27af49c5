#include "ops/repeat_columns/repeat_columns.h"

#include <doctest/doctest.h>

#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("repeat_columns lays a matrix side by side, and its gradient is the sum over the copies") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t width : {1, 37, 1100}) {
      for (const int64_t times : {1, 2, 6}) {
        const int64_t rows = 3;
        check_operation(
            {.tokens = rows,
             .inputs = {{{dtype, {rows, width}, kTokenAxis}, random_numbers(rows * width, 1)}},
             .build = [&](Builder& b, const std::vector<ValueId>& in) { return ops::repeat_columns(b, in[0], times); },
             .reference =
                 [&](const std::vector<Numbers>& in) {
                   Numbers out;
                   for (auto begin = in[0].begin(); begin != in[0].end(); begin += width) {
                     for (int64_t copy = 0; copy < times; ++copy) out.insert(out.end(), begin, begin + width);
                   }
                   return out;
                 }});
      }
    }
  }
}
