#include "data/clips/timestep_embedding.h"

#include <doctest/doctest.h>

#include <vector>

using namespace spillway::data;

TEST_CASE("a timestep's embedding is cosines, then sines, of ever slower turns") {
  std::vector<float> out(2 * 8, -1);
  fill_timestep_embedding(std::vector<float>{0, 500.25F}, 8, out);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(out[i] == 1);
    CHECK(out[4 + i] == 0);
  }
  // cos and sin of 500.25, 50.025, 5.0025 and 0.50025, to 16 digits by another program.
  const double want[] = {-0.7406439432832707, 0.9712231804098128,   0.28605860720881876, 0.8774626780825152,
                         -0.6718977223341417, -0.23817122797401094, -0.958212123301386,  0.4796449192603422};
  for (size_t i = 0; i < 8; ++i) CHECK(out[8 + i] == doctest::Approx(want[i]).epsilon(1e-7));
}

TEST_CASE("no timesteps have no embedding") { fill_timestep_embedding({}, 256, {}); }
