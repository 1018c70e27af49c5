// The files beside saved weights that make a folder complete for generation.
#pragma once

#include <filesystem>

#include "data/tokenizer.h"

namespace spillway::train {

// Copies the tokenizer's files, the chat template and generation_config.json where they are there. Special tokens with
// a name in `special` replace the ones in tokenizer_config.json and special_tokens_map.json, so that whoever loads the
// folder tokenizes as training did. Throws InputError for files that cannot be read.
void copy_tokenizer_files(const std::filesystem::path& from, const std::filesystem::path& to,
                          const data::SpecialTokenNames& special);

}  // namespace spillway::train
