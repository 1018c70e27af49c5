// Encodes f32 in the encodings of GGUF, bit for bit as ggml's reference quantisers and the gguf package do.
#pragma once

#include <cstddef>
#include <span>

#include "base/parallel.h"
#include "io/gguf.h"

namespace spillway {

// Returns true for types that quantize() writes: F32, F16, BF16, Q8_0, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K.
[[nodiscard]] bool can_quantize(GgufType type);

// Encodes finite values. A value beyond the range of a 16-bit encoding becomes infinity there. The result does not
// depend on the pool. REQUIRES: can_quantize(type); whole blocks; blocks.size() is exactly their bytes.
void quantize(GgufType type, std::span<const float> values, std::span<std::byte> blocks, ThreadPool* pool = nullptr);

}  // namespace spillway
