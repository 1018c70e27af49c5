// UTF-8, one code point at a time. Text from outside is checked or repaired once, where it enters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

// Returns the length in bytes of the character that starts with `lead`. REQUIRES: `lead` starts a valid character.
[[nodiscard]] constexpr size_t utf8_length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// Returns the character at `position` and moves that behind it. REQUIRES: valid UTF-8, position < text.size().
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

// Returns the position of the character before `position`. REQUIRES: valid UTF-8, position > 0.
[[nodiscard]] inline size_t previous_character(std::string_view text, size_t position) {
  do --position;
  while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

[[nodiscard]] size_t count_characters(std::string_view text);  // REQUIRES: valid UTF-8

// U+FFFD, the replacement for bytes that are no character.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

void append_utf8(std::string& text, char32_t code_point);

// The character at a byte of a text that may be no UTF-8, or the longest part of one that is cut off or wrong (Unicode
// 16, section 3.9: neither overlong forms nor surrogates are characters).
struct Utf8Part {
  char32_t code_point = 0xFFFD;
  size_t bytes = 1;
  bool is_valid = false;
};
[[nodiscard]] Utf8Part utf8_part(std::string_view text, size_t position);  // REQUIRES: position < text.size()

[[nodiscard]] bool is_ascii(std::string_view text);
[[nodiscard]] bool is_valid_utf8(std::string_view text);
// Returns the offset of the first byte that is not part of a character, -1 if there is none.
[[nodiscard]] int64_t first_invalid_utf8(std::string_view text);

// Returns `text` with one U+FFFD for each invalid part, the practice that WHATWG decoders, Python and Rust share.
[[nodiscard]] std::string repair_utf8(std::string_view text);

}  // namespace spillway
