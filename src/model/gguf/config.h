// Makes a config.json from a GGUF file's metadata, for the architectures llama (Mistral included), qwen2 and qwen3.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/gguf.h"
#include "model/gguf/tokenizer.h"
#include "model/gguf/weights.h"
#include "tensor/dtype.h"

namespace spillway {

// Throws InputError for other architectures, for metadata that config.json cannot express, and for numbers out of
// range.
[[nodiscard]] GgufModel read_gguf_model(const GgufFile& file);

// Returns the config.json. `dtype` is that of the weights that will be written beside it.
[[nodiscard]] nlohmann::ordered_json gguf_config(const GgufFile& file, const GgufModel& model,
                                                 const GgufTokenizerFiles& tokenizer, DType dtype);

// Throws InputError if the text is not the config.json of a supported model; `where` names it.
void check_config(std::string_view config_json, std::string_view where);

}  // namespace spillway
