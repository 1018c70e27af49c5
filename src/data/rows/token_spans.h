// Which bytes of a text each of its tokens stands for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace spillway::data {

// Half-open [begin, end) of `text` for each id of `ids`, its encoding. Ids that share a character share its bytes; a
// space that the tokenizer put in front of a word stands for none. Nothing where the tokens do not add up to the text
// (after Unicode normalisation), so that no place is certain.
[[nodiscard]] std::optional<std::vector<std::pair<int64_t, int64_t>>> token_spans(const text::Tokenizer& tokenizer,
                                                                                  std::string_view text,
                                                                                  std::span<const int32_t> ids);

// 1 for each token that touches one of the byte ranges (those of {% generation %} blocks), else 0; nothing where
// token_spans gives nothing.
[[nodiscard]] std::optional<std::vector<int32_t>> mask_of_ranges(const text::Tokenizer& tokenizer,
                                                                 std::string_view text, std::span<const int32_t> ids,
                                                                 std::span<const std::pair<int64_t, int64_t>> ranges);

}  // namespace spillway::data
