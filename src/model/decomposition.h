// Low-rank factors of a matrix, computed with Eigen, for adapters that start from their weight. Single-threaded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spillway {

// B [rows, r] and A [r, columns].
struct LowRankFactors {
  std::vector<float> b, a;
};

// Returns factors of W [rows, columns] = U S V' (rows of elements) from the r largest singular values: B = U_r sqrt(S_r
// / scale), A = sqrt(S_r / scale) V_r', so that scale B A is the best approximation of rank r. Signs are arbitrary.
// REQUIRES: r <= min(rows, columns), scale > 0.
[[nodiscard]] LowRankFactors singular_factors(std::span<const float> w, int64_t rows, int64_t columns, int64_t r,
                                              double scale);

// The same from a random subspace of r dimensions to which W and its transpose are applied (Halko, Martinsson and
// Tropp, Finding structure with randomness, 2011, algorithms 4.4 and 5.1); more iterations are more exact. The numbers
// depend only on `seed` and `stream`.
[[nodiscard]] LowRankFactors randomised_singular_factors(std::span<const float> w, int64_t rows, int64_t columns,
                                                         int64_t r, double scale, int64_t iterations, uint64_t seed,
                                                         uint64_t stream);

// Returns factors of W = Q R by Householder reflections: the first r columns of Q and rows of R. REQUIRES: r <=
// min(rows, columns).
[[nodiscard]] LowRankFactors orthogonal_factors(std::span<const float> w, int64_t rows, int64_t columns, int64_t r);

}  // namespace spillway
