// GPT-2's alphabet: each byte is written as one visible character, so that a vocabulary of text holds any bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spillway::text {

// Appends the characters of the bytes of `text`; each is below U+0200.
void append_byte_characters(std::string& out, std::string_view text);

// Appends the bytes that `text` stands for. If one character is not of the alphabet, appends `text` itself. REQUIRES:
// valid UTF-8.
void append_character_bytes(std::string& out, std::string_view text);

}  // namespace spillway::text
