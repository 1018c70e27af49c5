// JSON that comes from outside, and JSON that goes there. Compiled once: the library is slow to compile.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace spillway {

// Copying, comparing and printing a value recurse: what is nested deeper could exhaust the stack.
constexpr int kMaxJsonDepth = 200;

// `text` as JSON, with a discarded value for what is none. A number that no double holds (1e400) becomes the text of
// it, so that its reader refuses it by its key. Throws InputError at `where` for nesting beyond kMaxJsonDepth levels.
// Takes a time that grows with the text, however many members an object has. Json is nlohmann::json or
// nlohmann::ordered_json; so for all here.
template <typename Json = nlohmann::json>
[[nodiscard]] Json parse_json(std::string_view text, std::string_view where);

// The same, but throws what the library throws for text that is no JSON (Json::parse_error, with the byte) and for a
// number that no double holds (Json::out_of_range).
template <typename Json = nlohmann::json>
[[nodiscard]] Json read_json(std::string_view text, std::string_view where);

// `json` as text: on one line, or with `indent` spaces a level. Broken UTF-8 becomes U+FFFD, so that it never throws.
template <typename Json>
[[nodiscard]] std::string json_text(const Json& json, int indent = -1);

}  // namespace spillway
