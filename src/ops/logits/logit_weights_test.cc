#include "ops/logits/logit_weights.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace spillway::ops {
namespace {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN(),
                kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> some_logits(size_t count) {
  RandomStream random(1, count);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = 40 * random.uniform() - 20;
  return logits;
}

TEST_CASE("weights of logits and their sum agree with float64 for rows of any length") {
  for (const size_t count : {1, 7, 8, 16, 31, 100, 512, 1000}) {
    const std::vector<float> logits = some_logits(count);
    const float top = largest_logit(logits);
    CHECK(top == *std::max_element(logits.begin(), logits.end()));
    std::vector<float> weights(count);
    const double sum = logit_weights(logits, top, 0.7f, weights);
    double expected_sum = 0;
    for (size_t i = 0; i < count; ++i) {
      CAPTURE(i);
      const double expected = std::exp((static_cast<double>(logits[i]) - top) * 0.7f);
      expected_sum += expected;
      CHECK(weights[i] == doctest::Approx(expected).epsilon(1e-5));
    }
    CHECK(sum == doctest::Approx(expected_sum).epsilon(1e-6));
  }
}

TEST_CASE("a logit that is no number weighs nothing and is never the largest") {
  for (const size_t count : {3, 16, 64, 100}) {
    for (size_t at = 0; at < count; ++at) {
      CAPTURE(at);
      std::vector<float> logits = some_logits(count), weights(count), others = logits;
      logits[at] = kNotANumber;
      others[at] = -kInfinity;
      const float top = largest_logit(logits);
      CHECK(top == largest_logit(others));
      std::vector<float> expected(count);
      CHECK(logit_weights(logits, top, 1, weights) == logit_weights(others, top, 1, expected));
      CHECK(weights == expected);
      CHECK(weights[at] == 0);
    }
  }
  CHECK(largest_logit(std::vector<float>(40, kNotANumber)) == -kInfinity);
}

TEST_CASE("a weight has the same bits wherever its logit stands") {
  const std::vector<float> logits = some_logits(200);
  std::vector<float> all(200);
  logit_weights(logits, 20, 1.3f, all);
  for (size_t begin : {1, 5, 17, 190}) {
    std::vector<float> some(logits.size() - begin);
    logit_weights(std::span(logits).subspan(begin), 20, 1.3f, some);
    CHECK(some == std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end()));
  }
}

}  // namespace
}  // namespace spillway::ops
