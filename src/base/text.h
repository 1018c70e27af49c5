// Words in messages: what a user wrote, shown on one line, and the known name that it comes nearest to.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace spillway {

// `text` as a terminal or a log may show it: on one line, control characters and broken UTF-8 escaped, and so are
// characters that reorder text. Names, paths and texts come from files that somebody else wrote.
[[nodiscard]] std::string shown_line(std::string_view text);
// The same of several lines: line breaks and tabs stay.
[[nodiscard]] std::string shown_text(std::string_view text);

// `text` in single quotes, on one line, valid UTF-8 and of bounded length: control bytes and broken UTF-8 escaped, the
// middle of a long text left out.
[[nodiscard]] std::string quote(std::string_view text);

// Edits (insertions, deletions, replacements, swaps of neighbours) from one word to the other. Words longer than 64
// bytes count by their first 64.
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

// The name with the fewest edits from `word`, the first of equals; empty where all are further than half its length
// (2 edits from four letters on), so that the answer is a likely meaning.
[[nodiscard]] std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names);

// Without the spaces, tabs and line breaks around it.
[[nodiscard]] std::string_view trimmed(std::string_view text);

// Names joined as "a, b or c".
[[nodiscard]] std::string joined_names(std::span<const std::string_view> names);

}  // namespace spillway
