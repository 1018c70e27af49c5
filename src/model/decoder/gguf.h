// Decoders as GGUF describes them, by the rules of llama.cpp's convert_hf_to_gguf and back: the table of an
// architecture is a GgufFamily.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf.h"
#include "model/decoder/config.h"
#include "model/gguf/tokenizer.h"
#include "model/gguf/weights.h"

namespace spillway {

// Returns general.architecture of the model's file.
[[nodiscard]] std::string gguf_architecture(const DecoderConfig& config);

// Returns the length of the longest window; 0: no layer has one.
[[nodiscard]] int64_t longest_window(const DecoderConfig& config);

// Throws InputError at `where` (a config.json), naming the key, for what llama.cpp would compute otherwise: windows, a
// stretched rope that it does not read for the architecture, scores, quantised weights, or a family that it has no
// converter for.
void check_expressible(const DecoderConfig& config, std::string_view where);

// REQUIRES: check_expressible(), or a config that was made of a file.
[[nodiscard]] GgufDescription describe_gguf(const DecoderConfig& config);

// Adds all weights of a model, in the order in which a forward pass reads them.
void add_gguf_weights(const DecoderConfig& config, GgufDescription& result);

// Do what check_gguf_model() and gguf_config() do.
void check_is_decoder(const GgufFile& file);
[[nodiscard]] nlohmann::ordered_json decoder_config_of(const GgufFile& file, const GgufTokenizerFiles& tokenizer,
                                                       DType dtype);

}  // namespace spillway
