#include "data/clips/timestep_embedding.h"

#include <cmath>

#include "base/error.h"

namespace spillway::data {

void fill_timestep_embedding(std::span<const float> timesteps, int size, std::span<float> out) {
  SPILLWAY_CHECK(size > 0 && size % 2 == 0 && out.size() == timesteps.size() * static_cast<size_t>(size),
                 "{} numbers for {} timesteps of {}", out.size(), timesteps.size(), size);
  constexpr double kSlowest = 10000;
  const int half = size / 2;
  for (int i = 0; i < half; ++i) {
    const double frequency = std::pow(kSlowest, -static_cast<double>(i) / half);
    for (size_t row = 0; row < timesteps.size(); ++row) {
      float* const to = out.data() + row * static_cast<size_t>(size);
      to[i] = static_cast<float>(std::cos(timesteps[row] * frequency));
      to[half + i] = static_cast<float>(std::sin(timesteps[row] * frequency));
    }
  }
}

}  // namespace spillway::data
