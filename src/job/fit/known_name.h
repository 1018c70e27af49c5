// Names as people write them, found among those that are known: "RTX 4090" is rtx4090, "Qwen/Qwen3-8B" is qwen3-8b.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// In small letters: runs of letters, and numbers with the dots in them. "Llama-3.1-8B" has llama, 3.1, 8 and b.
[[nodiscard]] std::vector<std::string> name_words(std::string_view name);

// Those of `known` that have all words of `asked` side by side, but for words of makers (NVIDIA GeForce); of several
// those with the fewest words, which the laptop's version of a card is not among. In the order of `known`.
[[nodiscard]] std::vector<std::string_view> machines_meant(std::string_view asked,
                                                           std::span<const std::string_view> known);

// Whether both name a model of the same shape: their words are equal but for an organisation before a slash, and words
// for what was made of a base (instruct, chat, it, ...).
[[nodiscard]] bool is_same_shape(std::string_view a, std::string_view b);

}  // namespace spillway
