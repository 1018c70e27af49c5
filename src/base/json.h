// JSON that comes from outside.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace spillway {

// Copying, comparing and printing a value recurse: what is nested deeper could exhaust the stack.
constexpr int kMaxJsonDepth = 200;

// `text` as JSON, with a discarded value for what is none. Throws InputError at `where` for nesting beyond
// kMaxJsonDepth levels.
template <typename Json = nlohmann::json>
[[nodiscard]] Json parse_json(std::string_view text, std::string_view where) {
  const auto check_depth = [where](int depth, typename Json::parse_event_t, Json&) {
    if (depth > kMaxJsonDepth) {
      throw input_error(where, "expected at most {} nested levels, got more; correct the file", kMaxJsonDepth);
    }
    return true;
  };
  return Json::parse(text, check_depth, /*allow_exceptions=*/false);
}

}  // namespace spillway
