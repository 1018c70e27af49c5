// The tokenizer files that make a folder of saved weights complete for generation.
#pragma once

#include <filesystem>

#include "config/config.h"
#include "model/layout.h"

namespace spillway::train {

// Adds the tokenizer that training used to `files`: its files, changed to have the tokens and roles of `special_tokens`
// and `tokens`, so that the folder tokenizes as training did; the chat template of the rows; and generation_config.json
// if there is one. That file, and a config.json among `files`, get the token ids of roles that differ from those of the
// model `base` (model/token_ids.h). Throws InputError for files that cannot be read.
void add_tokenizer_files(const config::TokenizerSettings& settings, const data::RowOptions& rows,
                         const std::filesystem::path& base, FileTexts& files);

}  // namespace spillway::train
