// What scratch memory is filled with before kernels are timed on it: zeros would be faster than real data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/parallel.h"

namespace spillway {

// Pseudo-random numbers that are small whichever of the floating types they are read as: 2^-7 to 2^-4 in bf16 and f32,
// about 1 in f16, of both signs. `bytes` is rounded down to a multiple of 8.
void fill_with_small_numbers(std::byte* to, int64_t bytes, ThreadPool& pool);

}  // namespace spillway
