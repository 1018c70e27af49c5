#include "data/clips/timestep_embedding.h"

#include <cmath>

#include "base/error.h"
#include "base/index.h"

namespace spillway::data {

void fill_timestep_embedding(std::span<const float> timesteps, int size, std::span<float> out) {
  SPILLWAY_CHECK(size > 0 && size % 2 == 0 && std::ssize(out) == std::ssize(timesteps) * size,
                 "{} numbers for {} timesteps of {}", out.size(), timesteps.size(), size);
  constexpr double kSlowest = 10000;
  const int half = size / 2;
  for (int i = 0; i < half; ++i) {
    const double frequency = std::pow(kSlowest, -static_cast<double>(i) / half);
    for (int64_t row = 0; row < std::ssize(timesteps); ++row) {
      float* const to = out.data() + row * size;
      to[i] = static_cast<float>(std::cos(nth(timesteps, row) * frequency));
      to[half + i] = static_cast<float>(std::sin(nth(timesteps, row) * frequency));
    }
  }
}

}  // namespace spillway::data
