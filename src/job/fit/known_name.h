// Finds known names for names as people write them: "RTX 4090" is rtx4090, "Qwen/Qwen3-8B" is qwen3-8b.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// Returns the words of a name in lower case: runs of letters, and numbers with the dots in them. "Llama-3.1-8B" has
// llama, 3.1, 8 and b.
[[nodiscard]] std::vector<std::string> name_words(std::string_view name);

// Returns the names among `known` that have all words of `asked` side by side, ignoring words of makers (NVIDIA
// GeForce, Apple); none for words of variants alone (Max, Ti). Of several, only those with the fewest words, which
// excludes the laptop version of a card. In the order of `known`.
[[nodiscard]] std::vector<std::string_view> machines_meant(std::string_view asked,
                                                           std::span<const std::string_view> known);

// Returns true if both names mean models of the same shape: their words are equal except for an organisation before a
// slash, and words for variants of a base (instruct, chat, it, ...).
[[nodiscard]] bool is_same_shape(std::string_view a, std::string_view b);

}  // namespace spillway
