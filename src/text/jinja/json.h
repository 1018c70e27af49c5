// Converts between JSON and template values.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace spillway::text::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::string indent;  // of one level
  bool lines = false;  // whether items are on lines of their own (json.dumps with an indent, which may be empty)
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Does the same as Python's json.dumps. Throws Failure for a value that has no JSON form.
[[nodiscard]] std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

// Both throw Failure for nesting beyond kMaxDepth levels, parse_json() also for text that is not JSON.
[[nodiscard]] Value from_json(const nlohmann::ordered_json& json, Budget& budget);
[[nodiscard]] Value parse_json(std::string_view text, Budget& budget);

}  // namespace spillway::text::jinja
