#include "model/decomposition.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "base/random.h"

using namespace spillway;

namespace {

struct Sizes {
  int64_t rows, columns;
};

std::vector<float> random_matrix(int64_t elems, uint64_t seed) {
  RandomStream random(seed, 0);
  std::vector<float> result(static_cast<size_t>(elems));
  for (float& value : result) value = 2 * random.uniform() - 1;
  return result;
}

double at(const std::vector<float>& m, int64_t index) { return static_cast<double>(nth(m, index)); }

// |w - scale b a|^2
double distance(const std::vector<float>& w, const Sizes& s, const LowRankFactors& f, int64_t r, double scale) {
  double sum = 0;
  for (int64_t i = 0; i < s.rows; ++i) {
    for (int64_t j = 0; j < s.columns; ++j) {
      double rest = at(w, i * s.columns + j);
      for (int64_t k = 0; k < r; ++k) rest -= scale * at(f.b, i * r + k) * at(f.a, k * s.columns + j);
      sum += rest * rest;
    }
  }
  return sum;
}

// The squares of the singular values: the eigenvalues of w w' or w' w, by Jacobi's rotations in f64.
std::vector<double> squares_of_singular_values(const std::vector<float>& w, const Sizes& s) {
  const bool wide = s.columns > s.rows;
  const int64_t n = std::min(s.rows, s.columns), depth = std::max(s.rows, s.columns);
  std::vector<double> gram(static_cast<size_t>(n * n));
  const auto g = [&](int64_t i, int64_t j) -> double& { return nth(gram, i * n + j); };
  const auto element = [&](int64_t i, int64_t k) { return wide ? at(w, i * s.columns + k) : at(w, k * s.columns + i); };
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < depth; ++k) g(i, j) += element(i, k) * element(j, k);
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        const double angle = 0.5 * std::atan2(2 * g(p, q), g(q, q) - g(p, p)), c = std::cos(angle), t = std::sin(angle);
        for (int64_t k = 0; k < n; ++k) {
          const double x = g(k, p), y = g(k, q);
          g(k, p) = c * x - t * y;
          g(k, q) = t * x + c * y;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double x = g(p, k), y = g(q, k);
          g(p, k) = c * x - t * y;
          g(q, k) = t * x + c * y;
        }
      }
    }
  }
  std::vector<double> result;
  for (int64_t i = 0; i < n; ++i) result.push_back(g(i, i));
  std::sort(result.begin(), result.end());
  return result;
}

// Returns the error of the best approximation of rank r.
double least_distance(const std::vector<double>& ascending, int64_t r) {
  double sum = 0;
  for (size_t i = 0; i + static_cast<size_t>(r) < ascending.size(); ++i) sum += ascending[i];
  return sum;
}

double dot(const std::vector<float>& a, int64_t first, const std::vector<float>& b, int64_t second, int64_t count,
           int64_t stride) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += at(a, first + i * stride) * at(b, second + i * stride);
  return sum;
}

}  // namespace

TEST_CASE("singular factors are the best of their rank, and balanced") {
  for (const Sizes& s : {Sizes{30, 47}, Sizes{53, 20}, Sizes{16, 16}}) {
    const std::vector<float> w = random_matrix(s.rows * s.columns, 5);
    const std::vector<double> squares = squares_of_singular_values(w, s);
    for (const int64_t r : {1, 4, 16}) {
      CAPTURE(s.rows);
      CAPTURE(r);
      const LowRankFactors f = singular_factors(w, s.rows, s.columns, r, 2.5);
      CHECK(distance(w, s, f, r, 2.5) ==
            doctest::Approx(least_distance(squares, r)).epsilon(1e-4).scale(1e-3 * squares.back()));
      for (int64_t i = 0; i < r; ++i) {
        const double singular = std::sqrt(squares[squares.size() - 1 - static_cast<size_t>(i)]) / 2.5;
        CHECK(dot(f.b, i, f.b, i, s.rows, r) == doctest::Approx(singular).epsilon(1e-4));
        CHECK(dot(f.a, i * s.columns, f.a, i * s.columns, s.columns, 1) == doctest::Approx(singular).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("randomised factors come near the best, the nearer the more iterations, and are the same for a seed") {
  const Sizes s{60, 80};
  const std::vector<float> w = random_matrix(s.rows * s.columns, 6);
  const double best = least_distance(squares_of_singular_values(w, s), 8);
  const auto left = [&](int64_t iterations) {
    return distance(w, s, randomised_singular_factors(w, s.rows, s.columns, 8, 0.5, iterations, 1, 2), 8, 0.5);
  };
  CHECK(left(0) > left(4));
  CHECK(left(4) > best * (1 - 1e-5));
  CHECK(left(4) < 1.03 * best);
  CHECK(left(64) < 1.001 * best);
  const auto factors = [&](uint64_t seed) { return randomised_singular_factors(w, 60, 80, 8, 1, 2, seed, 2).a; };
  CHECK(factors(1) == factors(1));
  CHECK(factors(1) != factors(2));
}

TEST_CASE("orthogonal factors are the first columns and rows of a QR decomposition") {
  for (const Sizes& s : {Sizes{30, 47}, Sizes{53, 20}}) {
    const std::vector<float> w = random_matrix(s.rows * s.columns, 7);
    const int64_t r = 5;
    const LowRankFactors f = orthogonal_factors(w, s.rows, s.columns, r);
    for (int64_t i = 0; i < r; ++i) {
      for (int64_t j = 0; j < r; ++j) {
        CHECK(dot(f.b, i, f.b, j, s.rows, r) == doctest::Approx(i == j ? 1 : 0).scale(1).epsilon(1e-5));
        if (j < i) CHECK(nth(f.a, i * s.columns + j) == 0);
      }
      // The first r columns of W are Q_r R_r.
      for (int64_t row = 0; row < s.rows; ++row) {
        double sum = 0;
        for (int64_t k = 0; k < r; ++k) sum += at(f.b, row * r + k) * at(f.a, k * s.columns + i);
        CHECK(sum == doctest::Approx(at(w, row * s.columns + i)).scale(1).epsilon(1e-5));
      }
    }
    const int64_t all = std::min(s.rows, s.columns);
    CHECK(distance(w, s, orthogonal_factors(w, s.rows, s.columns, all), all, 1) < 1e-8);
  }
}
