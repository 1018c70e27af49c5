// Fills scratch memory before kernels are timed on it: zeros would be faster than real data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/parallel.h"

namespace spillway {

// Writes pseudo-random numbers that are small in any of the floating types: 2^-7 to 2^-4 when read as bf16 and f32,
// about 1 as f16, of both signs. `bytes` is rounded down to a multiple of 8.
void fill_with_small_numbers(std::byte* to, int64_t bytes, ThreadPool& pool);

}  // namespace spillway
