#include "base/random.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace spillway;

// The known answers were published with the algorithm (Random123, kat_vectors, philox4x32 10).
TEST_CASE("philox gives the published known answers") {
  CHECK(philox(0, 0, 0) == std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(~0ull, ~0ull, ~0ull) == std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

TEST_CASE("a bounded number covers its range evenly") {
  RandomStream stream(7, 1);
  std::array<int, 5> counts{};
  for (int i = 0; i < 50'000; ++i) ++counts[stream.below(5)];
  for (const int count : counts) CHECK(count == doctest::Approx(10'000).epsilon(0.05));
}

TEST_CASE("normal numbers have the deviation that is asked for") {
  RandomStream stream(7, 2);
  constexpr int kDraws = 50'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.normal(3);
    sum += x;
    squares += x * x;
  }
  CHECK(stream.position() == 2 * kDraws);
  CHECK(std::abs(sum / kDraws) < 0.05);
  CHECK(squares / kDraws == doctest::Approx(9).epsilon(0.03));
}
