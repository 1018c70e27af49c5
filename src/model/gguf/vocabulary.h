// Makes the metadata of a GGUF tokenizer from the tokenizer files of a Hugging Face folder: the inverse of
// model/gguf/tokenizer.h.
#pragma once

#include <cstdint>
#include <filesystem>

#include "io/gguf_writer.h"

namespace spillway {

// `vocab_size` is the number of rows of the embedding; ids without a token become "[PAD<id>]", as in llama.cpp's
// converter. `folder` has tokenizer.json and the files beside it. `model` is the folder whose config.json names ids
// that the tokenizer's files do not. Throws InputError, naming the file and the place, for a tokenizer that llama.cpp
// cannot run with the same ids.
[[nodiscard]] GgufMetadata gguf_vocabulary(const std::filesystem::path& folder, const std::filesystem::path& model,
                                           int64_t vocab_size);

}  // namespace spillway
