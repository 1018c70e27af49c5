// UTF-8, one code point at a time. Text inside the tokenizer is valid UTF-8: it is repaired once, where it enters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway::text {

// The length in bytes of the character that starts with `lead`. REQUIRES: `lead` starts a valid character.
[[nodiscard]] constexpr size_t utf8_length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// The character at `position`, which moves behind it. REQUIRES: valid UTF-8, position < text.size().
[[nodiscard]] inline char32_t next_code_point(std::string_view text, size_t& position) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[position + i])); };
  const char32_t lead = byte(0);
  const size_t length = utf8_length(static_cast<unsigned char>(lead));
  char32_t result = lead;
  if (length == 2) result = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
  if (length == 3) result = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  if (length == 4) result = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  position += length;
  return result;
}

// The position of the character before `position`. REQUIRES: valid UTF-8, position > 0.
[[nodiscard]] inline size_t previous_character(std::string_view text, size_t position) {
  do --position;
  while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

[[nodiscard]] size_t count_characters(std::string_view text);  // REQUIRES: valid UTF-8

void append_utf8(std::string& text, char32_t code_point);

[[nodiscard]] bool is_ascii(std::string_view text);
[[nodiscard]] bool is_valid_utf8(std::string_view text);

// Copies `text` with one U+FFFD for each maximal part of an invalid sequence (Unicode 16, section 3.9, the practice
// that WHATWG decoders, Python and Rust share).
[[nodiscard]] std::string repair_utf8(std::string_view text);

}  // namespace spillway::text
