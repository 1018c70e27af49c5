// The ids of the end, the beginning and the padding in a model's files, where its tokenizer has other ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// Returns the tokens that FOLDER/generation_config.json lists as ends of generation; none where it is not there. Throws
// InputError for a file that cannot be read.
[[nodiscard]] std::vector<int32_t> listed_ends(const std::filesystem::path& folder);

// Returns a generation_config.json that lists `ends`, too, behind what it lists by itself. `generation` and `config`
// are the texts of the model's generation_config.json and config.json; either may be empty. Without the first, programs
// read the second: where that lists all ends already, the result is empty. `where` names the files in errors. Throws
// InputError for a text that is no JSON object.
[[nodiscard]] std::string with_ends(const std::string& generation, const std::string& config,
                                    std::span<const int32_t> ends, std::string_view where);

// The same of the files of a folder.
void save_ends(const std::filesystem::path& folder, std::span<const int32_t> ends);

}  // namespace spillway
