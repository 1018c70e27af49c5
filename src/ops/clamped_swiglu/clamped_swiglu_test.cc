#include "ops/clamped_swiglu/clamped_swiglu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr double kAlpha = 1.3, kLimit = 2.5;

}  // namespace

TEST_CASE("gates and ups that are neighbours are clamped and multiplied, and what is clamped has no gradient") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_operation({.tokens = 6,
                     .inputs = {{{dtype, {6, 2 * 53}, kTokenAxis}, random_numbers(6 * 2 * 53, 1, 4)}},
                     .build =
                         [](Builder& b, const std::vector<ValueId>& in) {
                           return ops::clamped_swiglu(b, in[0], {.alpha = kAlpha, .limit = kLimit});
                         },
                     .reference =
                         [](const std::vector<Numbers>& in) {
                           Numbers out;
                           for (size_t i = 0; i < in[0].size(); i += 2) {
                             const double g = std::min(in[0][i], kLimit), u = std::clamp(in[0][i + 1], -kLimit, kLimit);
                             out.push_back((u + 1) * g / (1 + std::exp(-kAlpha * g)));
                           }
                           return out;
                         }});
  }
}

TEST_CASE("clamped_swiglu refuses rows that are not pairs") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {2, 7}}, ValueKind::kBatch);
  CHECK_THROWS_AS((void)ops::clamped_swiglu(b, x), InputError);
}
