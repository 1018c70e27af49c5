#include "model/gguf/weights.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

using namespace spillway;

namespace {

// The product of two matrices of whole numbers, [rows, inner] and [inner, columns].
std::vector<float> multiplied(const std::vector<float>& a, const std::vector<float>& b, size_t inner) {
  const size_t rows = a.size() / inner, columns = b.size() / inner;
  std::vector<float> result(rows * columns, 0);
  for (size_t i = 0; i < rows; ++i)
    for (size_t k = 0; k < inner; ++k)
      for (size_t j = 0; j < columns; ++j) result[i * columns + j] += a[i * inner + k] * b[k * columns + j];
  return result;
}

std::vector<float> viewed(const GgufPart& part, const std::vector<float>& values) {
  std::vector<float> result(static_cast<size_t>(part.elems()));
  part.gather(values.data(), result.data());
  return result;
}

std::vector<float> counted(size_t count, float first) {
  std::vector<float> result(count);
  std::iota(result.begin(), result.end(), first);
  return result;
}

}  // namespace

TEST_CASE("a view has the elements that its axes step to") {
  const std::vector<float> values = counted(24, 0);  // [2, 3, 4]
  const GgufPart transposed{.name = {}, .shape = {2, 3, 4}, .axes = {{2, 12}, {4, 1}, {3, 4}}};
  CHECK(viewed(transposed, values) ==
        std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, 12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23});
  const GgufPart second_rows{.name = {}, .shape = {2, 3, 4}, .first = 4, .axes = {{2, 12}, {4, 1}}};
  CHECK(viewed(second_rows, values) == std::vector<float>{4, 5, 6, 7, 16, 17, 18, 19});
  CHECK(viewed({.name = {}, .shape = {2, 3, 4}}, values) == values);
}

TEST_CASE("scattering puts a view's elements back and leaves the others") {
  const std::vector<float> values = counted(24, 0);
  const GgufPart every_second{.name = {}, .shape = {2, 12}, .first = 1, .axes = {{2, 12}, {6, 2}}};
  std::vector<float> back(24, -1);
  every_second.scatter(viewed(every_second, values).data(), back.data());
  for (size_t i = 0; i < back.size(); ++i) CHECK(back[i] == (i % 2 == 1 ? values[i] : -1));
}

TEST_CASE("the views of an adapter's factors multiply to the view of their product") {
  constexpr int64_t kRank = 2;
  const std::vector<float> b = counted(12 * kRank, 1), a = counted(kRank * 8, -5);  // of a matrix [12, 8]
  const std::vector<float> product = multiplied(b, a, kRank);
  const std::vector<GgufPart> parts = {
      {.name = {}, .shape = {12, 8}},
      {.name = {}, .shape = {12, 8}, .axes = {{2, 48}, {3, 8}, {2, 24}, {8, 1}}},  // halves of rows in turn
      {.name = {}, .shape = {12, 8}, .first = 32, .axes = {{4, 8}, {8, 1}}},       // some rows
      {.name = {}, .shape = {12, 8}, .axes = {{12, 8}, {2, 2}, {2, 4}, {2, 1}}},   // columns in another order
      {.name = {}, .shape = {12, 8}, .first = 16, .axes = {{2, 48}, {2, 8}, {4, 2}, {2, 1}}},  // rows of two groups
  };
  for (const GgufPart& part : parts) {
    const std::vector<float> of_b = viewed(view_of_factor(part, 'B', kRank), b);
    const std::vector<float> of_a = viewed(view_of_factor(part, 'A', kRank), a);
    CHECK(multiplied(of_b, of_a, kRank) == viewed(part, product));
  }
}
