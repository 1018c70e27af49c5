// The ids of the end, the beginning and the padding in a model's files, for a tokenizer that has other ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace spillway {

// The files of a model's folder that contain ids.
inline constexpr const char* kTokenIdFiles[] = {"config.json", "generation_config.json"};

// For roles that are other tokens in `now` than in `before`, writes the new ids into those of these files that exist:
// programs that generate read them instead of the tokenizer. Further tokens that end generation stay, as in
// transformers' Trainer. Throws InputError for a file that is not a JSON object.
void save_token_ids(const std::filesystem::path& folder, const text::Tokenizer& before, const text::Tokenizer& now);

// The same for the text of one of them, named `path`.
[[nodiscard]] std::string with_token_ids(const std::string& text, const std::filesystem::path& path,
                                         const text::Tokenizer& before, const text::Tokenizer& now);

// Returns the tokens that FOLDER/generation_config.json lists as ends of generation; none if the file is missing.
// Throws InputError for a file that cannot be read.
[[nodiscard]] std::vector<int32_t> listed_ends(const std::filesystem::path& folder);

// Returns a generation_config.json that also lists `ends`, after those that it lists already. `generation` and `config`
// are the texts of the model's generation_config.json and config.json; either may be empty. Without the first, programs
// read the second: if that lists all ends already, the result is empty. `where` names the files in errors. Throws
// InputError for a text that is not a JSON object.
[[nodiscard]] std::string with_ends(const std::string& generation, const std::string& config,
                                    std::span<const int32_t> ends, std::string_view where);

// The same for the files of a folder.
void save_ends(const std::filesystem::path& folder, std::span<const int32_t> ends);

}  // namespace spillway
