// Low-rank factors of a matrix, by Eigen: what adapters start as that are made of their weight. One thread each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spillway {

// B [rows, r] and A [r, columns].
struct LowRankFactors {
  std::vector<float> b, a;
};

// Of W [rows, columns] = U S V', rows of elements, the r largest singular values: B = U_r sqrt(S_r / scale),
// A = sqrt(S_r / scale) V_r', so that scale B A is the best approximation of rank r. Signs are free. REQUIRES: r <=
// min(rows, columns), scale > 0.
[[nodiscard]] LowRankFactors singular_factors(std::span<const float> w, int64_t rows, int64_t columns, int64_t r,
                                              double scale);

// The same from a random subspace of r dimensions that W and its transpose are applied to (Halko, Martinsson and Tropp,
// Finding structure with randomness, 2011, algorithms 4.4 and 5.1): the better the more iterations. The numbers depend
// on `seed` and `stream` alone.
[[nodiscard]] LowRankFactors randomised_singular_factors(std::span<const float> w, int64_t rows, int64_t columns,
                                                         int64_t r, double scale, int64_t iterations, uint64_t seed,
                                                         uint64_t stream);

// Of W = Q R by Householder reflections: the first r columns of Q and rows of R. REQUIRES: r <= min(rows, columns).
[[nodiscard]] LowRankFactors orthogonal_factors(std::span<const float> w, int64_t rows, int64_t columns, int64_t r);

}  // namespace spillway
