// The tokens <0x00> to <0xFF>, with which SentencePiece writes the bytes of characters that no other token has.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocabulary.h"

namespace spillway::text {

// Returns the ids by byte; -1 if the vocabulary has no such token.
[[nodiscard]] std::array<int32_t, 256> byte_token_ids(const Vocabulary& vocabulary);

// Appends the ids of the bytes of `text` if all of them have one; else returns false.
bool append_byte_tokens(const std::array<int32_t, 256>& byte_ids, std::string_view text, std::vector<int32_t>& ids);

// Returns the byte of a token such as <0xE2>.
[[nodiscard]] std::optional<char> byte_of_token(std::string_view token);

}  // namespace spillway::text
