// A decoder as GGUF describes it, by the rules of llama.cpp's convert_hf_to_gguf.
#pragma once

#include <string_view>

#include "model/decoder/config.h"
#include "model/gguf/weights.h"

namespace spillway {

// Throws InputError at `where` (a config.json), naming the key, for what llama.cpp would compute otherwise: windows, a
// stretched rope that it does not read for the architecture, scores, quantised weights, or a family that it has no
// converter for.
[[nodiscard]] GgufDescription describe_gguf(const DecoderConfig& config, std::string_view where);

}  // namespace spillway
