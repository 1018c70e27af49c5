// Python's view of a string: code points, its white space, its case mapping. Texts are UTF-8; bytes that are not valid
// UTF-8 count as one character each, so that nothing here can run off the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::text::jinja {

// Returns the bytes of the character that starts at `at`; 1 for a stray byte. REQUIRES: at < text.size().
[[nodiscard]] size_t char_bytes(std::string_view text, size_t at);
// Returns the code point there, or U+FFFD for a stray byte.
[[nodiscard]] char32_t code_point(std::string_view text, size_t at);

[[nodiscard]] int64_t char_count(std::string_view text);
// Returns the byte offset of every character, and of the end.
[[nodiscard]] std::vector<size_t> char_offsets(std::string_view text);

// Returns the first position of `part` in `text` at or after byte `from`, or npos. Linear in both, whatever they hold.
[[nodiscard]] size_t find_part(std::string_view text, std::string_view part, size_t from = 0);

// Does str.isspace for one code point.
[[nodiscard]] bool is_space(char32_t point);
// Does str.strip: null `chars` means white space. `left` and `right` tell which ends.
[[nodiscard]] std::string_view strip(std::string_view text, bool left, bool right, const std::string_view* chars);

[[nodiscard]] std::string upper(std::string_view text);
[[nodiscard]] std::string lower(std::string_view text);
[[nodiscard]] bool is_alpha(char32_t point);
[[nodiscard]] bool is_digit(char32_t point);
[[nodiscard]] bool is_upper(char32_t point);
[[nodiscard]] bool is_lower(char32_t point);
// Does str.isprintable, which decides what repr() escapes.
[[nodiscard]] bool is_printable(char32_t point);

}  // namespace spillway::text::jinja
