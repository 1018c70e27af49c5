// Reads the tokens that the files beside tokenizer.json add to its own, and change of its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_field.h"
#include "text/tokenizer/added_tokens.h"

namespace spillway::text {

// The texts of these files, empty for one that is absent, and the names of the files in errors.
struct TokenFiles {
  std::string config, config_name;  // tokenizer_config.json
  std::string map, map_name;        // special_tokens_map.json
  std::string added, added_name;    // added_tokens.json
};

// Returns the tokens in the order in which transformers 5.24 adds them to the tokenizer (_from_pretrained in
// tokenization_utils_base.py, __init__ in tokenization_utils_tokenizers.py): those of `added_tokens_decoder`, or else
// of added_tokens.json and tokenizer.json, by id; then the roles and the extra tokens that none of these is. Each has
// the id that its file gives it, or -1. A role is special. `own` are the tokens of tokenizer.json; `overrides` are
// other texts for tokens, by id. Throws InputError for members of the wrong type.
[[nodiscard]] std::vector<AddedToken> read_file_tokens(const TokenFiles& files, const AddedTokens& own,
                                                       const std::map<int64_t, std::string>& overrides);

}  // namespace spillway::text
