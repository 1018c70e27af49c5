// Maps tokens to the bytes of their text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace spillway::data {

// Returns for each id of `ids`, the encoding of `text`, its bytes as a half-open range. Ids that share a character
// share its bytes; a space that the tokenizer put in front of a word has none. Returns nothing if the tokens do not add
// up to the text (after Unicode normalisation), so that no place is certain.
[[nodiscard]] std::optional<std::vector<std::pair<int64_t, int64_t>>> token_spans(const text::Tokenizer& tokenizer,
                                                                                  std::string_view text,
                                                                                  std::span<const int32_t> ids);

// Returns 1 for each token that overlaps one of the byte ranges (those of {% generation %} blocks), else 0; nothing if
// token_spans() returns nothing.
[[nodiscard]] std::optional<std::vector<int32_t>> mask_of_ranges(const text::Tokenizer& tokenizer,
                                                                 std::string_view text, std::span<const int32_t> ids,
                                                                 std::span<const std::pair<int64_t, int64_t>> ranges);

}  // namespace spillway::data
