// Makes a config.json from a GGUF file's metadata.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/gguf.h"
#include "model/gguf/tokenizer.h"
#include "tensor/dtype.h"

namespace spillway {

// Throws InputError for a file that holds no model (an adapter, a projector of images), and for architectures that are
// not read here.
void check_gguf_model(const GgufFile& file);

// Returns the config.json. `dtype` is that of the weights that will be written beside it. Throws InputError
// for metadata that config.json cannot express, and for numbers out of range. REQUIRES: check_gguf_model().
[[nodiscard]] nlohmann::ordered_json gguf_config(const GgufFile& file, const GgufTokenizerFiles& tokenizer,
                                                 DType dtype);

}  // namespace spillway
