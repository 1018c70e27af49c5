// The ids of the end, the beginning and the padding in a model's files, where its tokenizer has other ones.
#pragma once

#include <filesystem>
#include <string>

#include "text/tokenizer.h"

namespace spillway {

// Where the roles of `now` are other tokens than those of `before`, FOLDER/config.json and
// FOLDER/generation_config.json get their ids, as far as the files are there: whoever generates reads them, and not the
// tokenizer. Further tokens that end generation stay, as transformers' Trainer has it. Throws InputError for a file
// that is no JSON object.
void save_token_ids(const std::filesystem::path& folder, const text::Tokenizer& before, const text::Tokenizer& now);

// The same of one of the two files, named `path`, whose text is at hand.
[[nodiscard]] std::string with_token_ids(const std::string& text, const std::filesystem::path& path,
                                         const text::Tokenizer& before, const text::Tokenizer& now);

}  // namespace spillway
