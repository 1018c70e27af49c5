// The numbers that an adapter's new factors and a new score begin with: each from a random stream of its own name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/parameters.h"

namespace spillway {

// Returns a stable number for a name (FNV-1a), the key of its random stream.
[[nodiscard]] uint64_t random_stream_of(std::string_view name);

// Fills elements [first_elem, first_elem + a.size()) of A as PEFT initialises it, uniform in +-1/sqrt(in_features); B
// starts at zero. The numbers depend only on the seed, the module's name and their place in A. REQUIRES: kLoraA.
void initialise_lora_a(std::span<float> a, int64_t first_elem, const Parameter& factor, uint64_t seed);

// The same with normal numbers: for PEFT's "gaussian" start of A, with a deviation of 1/r, and for a new score.
void initialise_normal(std::span<float> values, int64_t first_elem, const Parameter& parameter, double deviation,
                       uint64_t seed);

// The same with uniform numbers from `low` to `high`.
void initialise_uniform(std::span<float> values, int64_t first_elem, const Parameter& parameter, double low,
                        double high, uint64_t seed);

}  // namespace spillway
