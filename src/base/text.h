// Text of messages: quotes what a user wrote on one line, and finds the known name nearest to it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace spillway {

// Returns `text` in a form that is safe for a terminal or a log: on one line, with control characters, broken UTF-8 and
// characters that reorder text escaped. Names, paths and texts may come from files of others.
[[nodiscard]] std::string shown_line(std::string_view text);
// Does the same for several lines: line breaks and tabs stay.
[[nodiscard]] std::string shown_text(std::string_view text);

// Returns `text` in single quotes, on one line, valid UTF-8 and of bounded length: control bytes and broken UTF-8 are
// escaped, the middle of a long text is left out.
[[nodiscard]] std::string quote(std::string_view text);

// Returns the number of edits (insertions, deletions, replacements, swaps of neighbours) from one word to the other.
// Only the first 64 bytes of words count.
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

// Returns the name with the fewest edits from `word`, the first of equals; empty if all are further than half its
// length (2 edits from four letters on, and none of one letter), so that the answer is a likely meaning.
[[nodiscard]] std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names);

// Returns `text` without the spaces, tabs and line breaks around it.
[[nodiscard]] std::string_view trimmed(std::string_view text);
// Returns the text with the letters A to Z in lower case.
[[nodiscard]] std::string lower_case(std::string_view text);

// Returns names joined as "a, b or c".
[[nodiscard]] std::string joined_names(std::span<const std::string_view> names);

}  // namespace spillway
