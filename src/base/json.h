// Parses and prints JSON. Compiled once, since the library is slow to compile.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace spillway {

// The deepest nesting: copying, comparing and printing a value recurse, and deeper ones could exhaust the stack.
constexpr int kMaxJsonDepth = 200;

// Parses `text`; returns a discarded value if it is no JSON. A number that no double holds (1e400) becomes its text, so
// that its reader refuses it by its key. Throws InputError at `where` for nesting beyond kMaxJsonDepth levels. Takes
// time linear in the text, however many members an object has. Json is nlohmann::json or nlohmann::ordered_json, in all
// functions here.
template <typename Json = nlohmann::json>
[[nodiscard]] Json parse_json(std::string_view text, std::string_view where);

// Parses `text` as parse_json does, but throws the library's exceptions: Json::parse_error, with the byte, for text
// that is no JSON, and Json::out_of_range for a number that no double holds.
template <typename Json = nlohmann::json>
[[nodiscard]] Json read_json(std::string_view text, std::string_view where);

// Returns the text of a config.json in which Infinity, -Infinity and NaN, which Python writes and JSON does not have,
// are {"__float__": "Infinity"} and so on, as transformers 5 writes them.
[[nodiscard]] std::string with_named_infinities(std::string config_json);

// Prints `json` on one line, or with `indent` spaces a level. Broken UTF-8 becomes U+FFFD, so that it never throws.
template <typename Json>
[[nodiscard]] std::string json_text(const Json& json, int indent = -1);

}  // namespace spillway
