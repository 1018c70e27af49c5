#include "ops/ema/ema.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("an average is the weights until after its first steps, then decays towards them") {
  const int64_t rows = 6, width = 37;
  const ops::RowSlice slice{2, 3};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const double step : {1.0, 2.0, 3.0}) {
      for (const int64_t start : {0, 2}) {
        OperationCase test{
            .inputs = {{{DType::kF32, {slice.count, width}}, random_numbers(slice.count * width, 1), false},
                       {{dtype, {rows, width}}, random_numbers(rows * width, 2), false},
                       {{DType::kI32, {1}}, {step}, false}},
            .build =
                [&](Builder& b, const std::vector<ValueId>& in) {
                  return ops::ema(b, in[0], in[1], in[2], slice, {.decay = 0.75, .start_step = start});
                },
            .reference =
                [&](const std::vector<Numbers>& in) {
                  Numbers out = in[0];
                  for (size_t i = 0; i < out.size(); ++i) {
                    const double weight = in[1][static_cast<size_t>(slice.first * width) + i];
                    const bool is_copy = step <= std::max<double>(1, static_cast<double>(start));
                    out[i] = is_copy ? weight : 0.75 * out[i] + 0.25 * weight;
                  }
                  return out;
                }};
        check_operation(test);
      }
    }
  }
}
