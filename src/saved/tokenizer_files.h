// The files beside saved weights that make a folder complete for generation.
#pragma once

#include <filesystem>

#include "config/config.h"
#include "model/layout.h"

namespace spillway::train {

// Adds the tokenizer that training used to `files`: its files as they are, but with the tokens and roles of
// `special_tokens` and `tokens`, so that whoever loads the folder tokenizes as training did; the chat template that the
// rows were made with; and generation_config.json where there is one. That and a config.json among `files` name the
// tokens of roles that the model of `base` has otherwise (model/token_ids.h). Throws InputError for files that cannot
// be read.
void add_tokenizer_files(const config::TokenizerSettings& settings, const data::RowOptions& rows,
                         const std::filesystem::path& base, FileTexts& files);

}  // namespace spillway::train
