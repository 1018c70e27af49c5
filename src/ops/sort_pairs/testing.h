// References of operations on rows of pairs, in float64.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/testing.h"

namespace spillway::ops::testing {

// Returns the pair at each place, sorted by expert.
[[nodiscard]] inline std::vector<size_t> order_of(const Numbers& experts) {
  std::vector<size_t> order(experts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return experts[a] < experts[b]; });
  return order;
}

// Returns row `row` of `width` numbers.
[[nodiscard]] inline Numbers row_of(const Numbers& x, size_t row, int64_t width) {
  const auto from = x.begin() + static_cast<std::ptrdiff_t>(row) * width;
  return {from, from + width};
}

inline void append_row(Numbers& to, const Numbers& row) { to.insert(to.end(), row.begin(), row.end()); }

// Makes the experts of tokens, an operand without a gradient.
[[nodiscard]] inline OperandCase experts_operand(int64_t tokens, int64_t k, int64_t experts, uint64_t seed = 1) {
  return {{DType::kI32, {tokens, k}, kTokenAxis}, random_integers(tokens * k, seed, experts), false};
}

}  // namespace spillway::ops::testing
