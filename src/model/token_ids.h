// The ids of the end, the beginning and the padding in a model's files, where its tokenizer has other ones.
#pragma once

#include <filesystem>
#include <string>

#include "text/tokenizer.h"

namespace spillway {

// The files of a model's folder that say ids.
inline constexpr const char* kTokenIdFiles[] = {"config.json", "generation_config.json"};

// Where the roles of `now` are other tokens than those of `before`, these files get their ids, as far as they are
// there: programs that generate read them, and not the tokenizer. Further tokens that end generation stay, as
// transformers' Trainer has it. Throws InputError for a file that is no JSON object.
void save_token_ids(const std::filesystem::path& folder, const text::Tokenizer& before, const text::Tokenizer& now);

// The same of one of them, named `path`, whose text is at hand.
[[nodiscard]] std::string with_token_ids(const std::string& text, const std::filesystem::path& path,
                                         const text::Tokenizer& before, const text::Tokenizer& now);

}  // namespace spillway
