// Methods of strings that look for a part: strip, split, find, replace and their kin.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/index.h"
#include "text/jinja/builtins.h"
#include "text/jinja/methods.h"
#include "text/jinja/unicode.h"

namespace spillway::text::jinja {
namespace {

template <bool kLeft, bool kRight>
Value strip_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value chars = bind("strip", arguments, {{"chars", Value()}})[0];
  runtime.budget.spend_bytes(self.text().size());
  if (chars.is_none()) return like(self, std::string(strip(self.text(), kLeft, kRight, nullptr)));
  const std::string_view set = text_argument(chars, "strip()");
  return like(self, std::string(strip(self.text(), kLeft, kRight, &set)));
}

std::vector<Value> split_space(const Value& self, int64_t limit, bool from_right) {
  std::vector<Value> parts;
  std::string_view rest = strip(self.text(), true, true, nullptr);
  const auto offsets_of_space = [&](bool last) {
    size_t found = std::string_view::npos;
    for (size_t at = 0; at < rest.size(); at += char_bytes(rest, at)) {
      if (!is_space(code_point(rest, at))) continue;
      found = at;
      if (!last) break;
    }
    return found;
  };
  while (!rest.empty()) {
    const size_t at = limit >= 0 && static_cast<int64_t>(parts.size()) >= limit ? std::string_view::npos
                                                                                : offsets_of_space(from_right);
    if (at == std::string_view::npos) {
      parts.push_back(like(self, std::string(rest)));
      break;
    }
    if (from_right) {
      parts.push_back(like(self, std::string(rest.substr(at + char_bytes(rest, at)))));
      rest = strip(rest.substr(0, at), false, true, nullptr);
    } else {
      parts.push_back(like(self, std::string(rest.substr(0, at))));
      rest = strip(rest.substr(at), true, false, nullptr);
    }
  }
  return parts;
}

template <bool kFromRight>
Value split_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto args = bind("split", arguments, {{"sep", Value()}, {"maxsplit", Value(-1)}});
  const int64_t limit = as_integer(args[1], "maxsplit");
  std::string_view rest = self.text();
  std::vector<Value> parts;
  if (args[0].is_none()) {
    // From the right each part costs a walk over the rest, so that walk is charged.
    runtime.budget.spend_bytes(rest.size() * (kFromRight ? rest.size() / 8 + 1 : 2));
    parts = split_space(self, limit, kFromRight);
  } else {
    const std::string& separator = text_argument(args[0], "split()");
    if (separator.empty()) throw Failure{"empty separator"};
    runtime.budget.spend_bytes(rest.size() * (kFromRight ? separator.size() : 2));
    while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
      const size_t at = kFromRight ? rest.rfind(separator) : find_part(rest, separator);
      if (at == std::string_view::npos) break;
      runtime.budget.spend(1);
      parts.push_back(like(self, std::string(kFromRight ? rest.substr(at + separator.size()) : rest.substr(0, at))));
      rest = kFromRight ? rest.substr(0, at) : rest.substr(at + separator.size());
    }
    parts.push_back(like(self, std::string(rest)));
  }
  if (kFromRight) std::reverse(parts.begin(), parts.end());
  return make_sequence(std::move(parts));
}

Value splitlines_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const bool keep = truthy(bind("splitlines", arguments, {{"keepends", Value(false)}})[0]);
  const std::string& text = self.text();
  runtime.budget.spend(static_cast<int64_t>(text.size()) + 1);
  std::vector<Value> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const char32_t point = code_point(text, at);
    size_t next = at + char_bytes(text, at);
    const bool ends = (point >= 10 && point <= 13) || (point >= 0x1C && point <= 0x1E) || point == 0x85 ||
                      point == 0x2028 || point == 0x2029;
    if (ends) {
      if (point == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(like(self, text.substr(start, (keep ? next : at) - start)));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) lines.push_back(like(self, text.substr(start)));
  return make_sequence(std::move(lines));
}

// Returns the part of the string that a search covers: the optional start and end of find, startswith and the like, in
// bytes.
std::string_view window(const Value& self, const Value& begin, const Value& end, size_t* first = nullptr) {
  const std::string& text = self.text();
  if (first != nullptr) *first = 0;
  if (begin.is_none() && end.is_none()) return text;
  const auto offsets = char_offsets(text);
  const auto size = static_cast<int64_t>(offsets.size()) - 1;
  const auto clamp = [size](const Value& bound, int64_t fallback) {
    if (bound.is_none()) return fallback;
    const int64_t at = as_integer(bound, "a bound");
    return std::clamp<int64_t>(at < 0 ? std::max(at, -size) + size : at, 0, size);
  };
  const int64_t first_character = clamp(begin, 0), end_character = std::max(first_character, clamp(end, size));
  const size_t from = nth(offsets, first_character), to = nth(offsets, end_character);
  if (first != nullptr) *first = from;
  return std::string_view(text).substr(from, to - from);
}

template <bool kStart>
Value affix_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::string_view name = kStart ? "startswith" : "endswith";
  const auto args = bind(name, arguments, {{kStart ? "prefix" : "suffix"}, {"start", Value()}, {"end", Value()}});
  const std::string_view text = window(self, args[1], args[2]);
  const auto matches = [&](const Value& affix) {
    const std::string& part = text_argument(affix, name);
    runtime.budget.spend_bytes(part.size());
    return kStart ? text.starts_with(part) : text.ends_with(part);
  };
  if (!args[0].is_sequence() || args[0].sequence().kind != Sequence::Kind::kTuple) return Value(matches(args[0]));
  const auto& items = args[0].sequence().items;
  return Value(std::any_of(items.begin(), items.end(), matches));
}

// Does find, rfind, index and rindex: returns the position in characters.
template <bool kLast, bool kMustFind>
Value find_text_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto args = bind("find", arguments, {{"sub"}, {"start", Value()}, {"end", Value()}});
  size_t first = 0;
  const std::string_view text = window(self, args[1], args[2], &first);
  const std::string& part = text_argument(args[0], "find()");
  runtime.budget.spend_bytes(text.size() * (kLast ? part.size() : 1));
  const size_t at = kLast ? text.rfind(part) : find_part(text, part);
  if (at == std::string_view::npos) {
    if (kMustFind) throw Failure{"substring not found"};
    return Value(-1);
  }
  return Value(char_count(std::string_view(self.text()).substr(0, first + at)));
}

Value count_text_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto args = bind("count", arguments, {{"sub"}, {"start", Value()}, {"end", Value()}});
  const std::string_view text = window(self, args[1], args[2]);
  const std::string& part = text_argument(args[0], "count()");
  runtime.budget.spend_bytes(text.size());
  if (part.empty()) return Value(char_count(text) + 1);
  int64_t count = 0;
  for (size_t at = find_part(text, part); at != std::string_view::npos; at = find_part(text, part, at + part.size()))
    ++count;
  return Value(count);
}

Value replace_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto args = bind("replace", arguments, {{"old"}, {"new"}, {"count", Value(-1)}});
  const auto& from = text_argument(args[0], "replace()");
  const auto& to = text_argument(args[1], "replace()");
  const std::string replacement = self.is_markup() && !args[1].is_markup() ? escape_html(to) : to;
  const int64_t limit = as_integer(args[2], "count");
  const std::string& text = self.text();
  runtime.budget.spend_bytes(text.size());
  std::string out;
  int64_t done = 0;
  size_t at = 0;
  while (limit < 0 || done < limit) {
    const size_t found = from.empty() ? at : find_part(text, from, at);
    if (found == std::string::npos || found > text.size()) break;
    runtime.budget.spend_bytes(replacement.size());
    out.append(text, at, found - at);
    out += replacement;
    ++done;
    at = found + from.size();
    if (from.empty()) {
      // Inserts between characters, and at both ends.
      if (at >= text.size()) return like(self, std::move(out));
      const size_t length = char_bytes(text, at);
      out.append(text, at, length);
      at += length;
    }
  }
  out.append(text, at, std::string::npos);
  return like(self, std::move(out));
}

template <bool kLast>
Value partition_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value separator = bind("partition", arguments, {{"sep"}})[0];
  const std::string& part = text_argument(separator, "partition()");
  if (part.empty()) throw Failure{"empty separator"};
  const std::string& text = self.text();
  runtime.budget.spend_bytes(text.size() * (kLast ? part.size() : 1));
  const size_t at = kLast ? text.rfind(part) : find_part(text, part);
  std::vector<Value> parts = {self, Value(""), Value("")};
  if (at != std::string::npos) {
    parts = {like(self, text.substr(0, at)), separator, like(self, text.substr(at + part.size()))};
  } else if (kLast) {
    std::swap(parts[0], parts[2]);
  }
  return make_sequence(std::move(parts), Sequence::Kind::kTuple);
}

template <bool kPrefix>
Value remove_affix_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value affix = bind("removeprefix", arguments, {{"affix"}})[0];
  const std::string& part = text_argument(affix, "removeprefix()");
  const std::string& text = self.text();
  runtime.budget.spend_bytes(text.size());
  if (kPrefix ? !text.starts_with(part) : !text.ends_with(part)) return self;
  return like(self, kPrefix ? text.substr(part.size()) : text.substr(0, text.size() - part.size()));
}

constexpr std::array kSearchMethods = {
    NamedMethod{"strip", strip_method<true, true>},
    NamedMethod{"lstrip", strip_method<true, false>},
    NamedMethod{"rstrip", strip_method<false, true>},
    NamedMethod{"split", split_method<false>},
    NamedMethod{"rsplit", split_method<true>},
    NamedMethod{"splitlines", splitlines_method},
    NamedMethod{"startswith", affix_method<true>},
    NamedMethod{"endswith", affix_method<false>},
    NamedMethod{"find", find_text_method<false, false>},
    NamedMethod{"rfind", find_text_method<true, false>},
    NamedMethod{"index", find_text_method<false, true>},
    NamedMethod{"rindex", find_text_method<true, true>},
    NamedMethod{"count", count_text_method},
    NamedMethod{"replace", replace_method},
    NamedMethod{"partition", partition_method<false>},
    NamedMethod{"rpartition", partition_method<true>},
    NamedMethod{"removeprefix", remove_affix_method<true>},
    NamedMethod{"removesuffix", remove_affix_method<false>},
};

}  // namespace

Method find_search_method(std::string_view name) { return find_in(kSearchMethods, name); }

}  // namespace spillway::text::jinja
