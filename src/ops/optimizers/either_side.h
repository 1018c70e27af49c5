// For functions that kernels of the CPU and of a GPU call.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SPILLWAY_EITHER_SIDE __host__ __device__
#else
#define SPILLWAY_EITHER_SIDE
#endif

namespace spillway::ops {

// Multiplied out, since the pow of two libraries differs in the last bit. REQUIRES: exponent >= 0.
constexpr double power(double base, int32_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result *= base;
    base *= base;
  }
  return result;
}

// Natural logarithm and exponential, of the four operations alone for the same reason; good to some 1e-15 times the
// larger of 1 and x.
constexpr double kLn2 = 0.693147180559945309417232121458;

// REQUIRES: x > 0.
constexpr double logarithm(double x) {
  double twos = 0;
  for (; x > 1.5; x /= 2) ++twos;
  for (; x < 0.75; x *= 2) --twos;
  // log(x) = 2 artanh((x - 1) / (x + 1)); the argument is at most 0.2.
  const double t = (x - 1) / (x + 1), square = t * t;
  double sum = 0, factor = t;
  for (int n = 1; n < 29; n += 2, factor *= square) sum += factor / n;
  return 2 * sum + twos * kLn2;
}
// REQUIRES: |x| < 700.
constexpr double exponential(double x) {
  // exp(x) = 2^twos exp(rest), with a rest of at most log(2) / 2.
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
// REQUIRES: base > 0.
constexpr double real_power(double base, double exponent) { return exponential(exponent * logarithm(base)); }

}  // namespace spillway::ops
