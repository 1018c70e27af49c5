// Decodes block encodings of GGUF to f32, as ggml defines them. In all of them a block holds scales in f16 and small
// integers; the K encodings hold 256 values with scales of 4 to 8 bits for groups of 16 or 32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/gguf.h"

namespace spillway {

// Writes into.size() values. REQUIRES: blocks.size() is exactly the bytes of that many values, which are whole blocks.
void dequantize(GgufType type, std::span<const std::byte> blocks, std::span<float> into);

}  // namespace spillway
