// f32 to the encodings of GGUF, bit for bit as ggml's reference quantisers and the gguf package round.
#pragma once

#include <cstddef>
#include <span>

#include "io/gguf.h"

namespace spillway {

// Whether quantize() writes it: F32, F16, BF16 and Q8_0.
[[nodiscard]] bool can_quantize(GgufType type);

// Encodes finite values. A value beyond the range of a 16-bit encoding becomes infinity there. REQUIRES:
// can_quantize(type); whole blocks; blocks.size() is exactly their bytes.
void quantize(GgufType type, std::span<const float> values, std::span<std::byte> blocks);

}  // namespace spillway
