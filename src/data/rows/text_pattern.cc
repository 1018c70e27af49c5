#include "data/rows/text_pattern.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace spillway::data {

TextPattern::TextPattern(std::string_view pattern, std::string_view where, std::span<const std::string_view> names) {
  std::string literal;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const char c = pattern[at];
    if (c != '{' && c != '}') {
      literal += c;
      continue;
    }
    if (at + 1 < pattern.size() && pattern[at + 1] == c) {
      literal += c;
      ++at;
      continue;
    }
    const size_t end = c == '{' ? pattern.find('}', at) : std::string_view::npos;
    if (end == std::string_view::npos) {
      throw input_error(where, "expected a name in braces, got a lone '{}' in {}; write {}{} for the character", c,
                        quote(pattern), c, c);
    }
    const std::string name(pattern.substr(at + 1, end - at - 1));
    const bool known = names.empty() ? !name.empty() : std::find(names.begin(), names.end(), name) != names.end();
    if (!known) {
      throw input_error(where, "expected {} in braces, got {}; correct the name, or double the braces of plain text",
                        joined_names(names), quote(name));
    }
    pieces_.push_back({std::move(literal), name});
    literal.clear();
    at = end;
  }
  if (!literal.empty()) pieces_.push_back({std::move(literal), ""});
}

}  // namespace spillway::data
