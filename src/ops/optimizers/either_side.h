// Functions that kernels of the CPU and of a GPU call.
#pragma once

#include <cstdint>
#include <limits>

#ifdef __CUDACC__
#define SPILLWAY_EITHER_SIDE __host__ __device__
#else
#define SPILLWAY_EITHER_SIDE
#endif

namespace spillway::ops {

// Returns base^exponent, multiplied out, since the pow of two libraries differs in the last bit. REQUIRES: exponent >=
// 0.
constexpr double power(double base, int32_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result *= base;
    base *= base;
  }
  return result;
}

// Natural logarithm and exponential, by the four operations alone for the same reason; good to some 1e-15 times the
// larger of 1 and x. They end for every number, since operations are also measured with numbers that no training has:
// zeros, infinities and NaN give the results of the library's functions.
constexpr double kLn2 = 0.693147180559945309417232121458;

// Returns the natural logarithm, NaN for a negative x.
constexpr double logarithm(double x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!(x > 0)) return x == 0 ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
  if (x == kInfinity) return x;
  double twos = 0;
  for (; x > 1.5; x /= 2) ++twos;
  for (; x < 0.75; x *= 2) --twos;
  // Uses log(x) = 2 artanh((x - 1) / (x + 1)); the argument is at most 0.2.
  const double t = (x - 1) / (x + 1), square = t * t;
  double sum = 0, factor = t;
  for (int n = 1; n < 29; n += 2, factor *= square) sum += factor / n;
  return 2 * sum + twos * kLn2;
}
constexpr double exponential(double x) {
  constexpr double kBeyond = 1000;  // no double is as large, or as small, as such a power
  if (!(x < kBeyond)) return x * std::numeric_limits<double>::infinity();
  if (x < -kBeyond) return 0;
  // Uses exp(x) = 2^twos exp(rest), with a rest of at most log(2) / 2.
  const auto twos = static_cast<int32_t>(x / kLn2 + (x < 0 ? -0.5 : 0.5));
  const double rest = x - twos * kLn2;
  double sum = 1, term = 1;
  for (int n = 1; n < 18; ++n) {
    term *= rest / n;
    sum += term;
  }
  for (int32_t i = 0; i < twos; ++i) sum *= 2;
  for (int32_t i = 0; i > twos; --i) sum /= 2;
  return sum;
}
// Returns base^exponent, NaN for a negative base, and for 0 to the power of 0.
constexpr double real_power(double base, double exponent) { return exponential(exponent * logarithm(base)); }

}  // namespace spillway::ops
