// Changes the text of a tokenizer.json; all else stays byte for byte. REQUIRES: read_tokenizer_file reads the text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace spillway::text {

// Returns the text with `list` as its added_tokens.
[[nodiscard]] std::string with_added_tokens(std::string_view json, std::string_view list);

// Returns it with other texts for added tokens, by id, also in the model's vocabulary. Throws InputError for an id that
// no added token has; `where` names the file.
[[nodiscard]] std::string with_token_texts(std::string_view json, const std::map<int64_t, std::string>& texts,
                                           std::string_view where);

}  // namespace spillway::text
