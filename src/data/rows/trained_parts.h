// Selects the tokens of a text that are targets, for rows that mark characters.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "data/rows/conversation.h"
#include "text/tokenizer.h"

namespace spillway::data {

// Returns one flag for each token of the text's own encoding (without special tokens), as axolotl decides it: a part is
// extended to the tokens that it begins and ends in, and a token is a target if it lies in a part with `train`. All
// flags are false if the tokens have no certain place in the text.
[[nodiscard]] std::vector<bool> trained_tokens(const text::Tokenizer& tokenizer, std::string_view text,
                                               std::span<const TrainedPart> parts);

}  // namespace spillway::data
