// Which tokens of a text are targets, where a row says so of its characters.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "data/rows/conversation.h"
#include "text/tokenizer.h"

namespace spillway::data {

// One flag for each token of the text's own encoding (without special tokens), as axolotl decides it: a part grows to
// the tokens that it begins and ends in, and a token is a target where it lies in a part with `train`. All false where
// the tokens have no certain place in the text.
[[nodiscard]] std::vector<bool> trained_tokens(const text::Tokenizer& tokenizer, std::string_view text,
                                               std::span<const TrainedPart> parts);

}  // namespace spillway::data
