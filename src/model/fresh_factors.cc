#include "model/fresh_factors.h"

#include <cmath>

#include "base/random.h"

namespace spillway {

uint64_t random_stream_of(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

void initialise_lora_a(std::span<float> a, int64_t first_elem, const Parameter& factor, uint64_t seed) {
  const float bound = 1.0f / std::sqrt(static_cast<float>(factor.shape[1]));
  RandomStream random(seed, random_stream_of(factor.module), static_cast<uint64_t>(first_elem));
  for (float& value : a) value = (2 * random.uniform() - 1) * bound;
}

void initialise_normal(std::span<float> values, int64_t first_elem, const Parameter& parameter, double deviation,
                       uint64_t seed) {
  RandomStream random(seed, random_stream_of(parameter.module), 2 * static_cast<uint64_t>(first_elem));
  for (float& value : values) value = random.normal(deviation);
}

void initialise_uniform(std::span<float> values, int64_t first_elem, const Parameter& parameter, double low,
                        double high, uint64_t seed) {
  RandomStream random(seed, random_stream_of(parameter.module), static_cast<uint64_t>(first_elem));
  for (float& value : values) value = static_cast<float>(low + (high - low) * double{random.uniform()});
}

}  // namespace spillway
