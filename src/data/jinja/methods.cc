// Methods of strings, lists and dicts. What would change a list or dict is refused, as the sandbox refuses it.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/jinja/builtins.h"
#include "data/jinja/runtime.h"
#include "data/jinja/unicode.h"

namespace spillway::data::jinja {
namespace {

using Method = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);

struct NamedMethod {
  std::string_view name;
  Method method;
};

struct BoundMethod : Callable {
  BoundMethod(Value owner, Method function) : self(std::move(owner)), method(function) {}
  [[nodiscard]] std::string_view type_name() const override { return "builtin_function_or_method"; }
  [[nodiscard]] int depth() const override { return depth_of(self) + 1; }
  [[nodiscard]] Value call(Runtime& runtime, const Arguments& arguments) override {
    return method(runtime, self, arguments);
  }
  Value self;
  Method method;
};

const std::string& text_argument(const Value& value, std::string_view what) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_text()) throw Failure{fmt::format("expected a string for {}, got '{}'", what, type_name(value))};
  return value.text();
}

Value like(const Value& self, std::string text) { return Value(std::move(text), self.is_markup()); }

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
    // From the right each part costs a walk over the rest, so that walk is what is paid for.
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

// Where in the string a search may look: the optional start and end of find, startswith and the like, in bytes.
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
  const auto from = static_cast<size_t>(clamp(begin, 0)), to = static_cast<size_t>(clamp(end, size));
  if (first != nullptr) *first = offsets[from];
  return std::string_view(text).substr(offsets[from], offsets[std::max(from, to)] - offsets[from]);
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

// find, rfind, index, rindex: the position in characters.
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
      // Between characters, and at both ends.
      if (at >= text.size()) return like(self, std::move(out));
      const size_t length = char_bytes(text, at);
      out.append(text, at, length);
      at += length;
    }
  }
  out.append(text, at, std::string::npos);
  return like(self, std::move(out));
}

Value join_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value items = bind("join", arguments, {{"iterable"}})[0];
  std::string out;
  bool first = true;
  for (const Value& part : items_of(items, runtime.budget)) {
    if (!first) out += self.text();
    first = false;
    out += text_argument(part, "join()");
    runtime.budget.spend_bytes(self.text().size() + part.text().size());
  }
  return like(self, std::move(out));
}

template <std::string (*kMap)(std::string_view)>
Value map_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  (void)bind("case method", arguments, {});
  runtime.budget.spend_bytes(self.text().size());
  return like(self, kMap(self.text()));
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = char_bytes(text, 0);
  return upper(text.substr(0, first)) + lower(text.substr(first));
}

std::string title(std::string_view text) {
  std::string out;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t length = char_bytes(text, at);
    const std::string_view character = text.substr(at, length);
    out += inside ? lower(character) : upper(character);
    inside = is_alpha(code_point(text, at));
    at += length;
  }
  return out;
}

std::string swapcase(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = char_bytes(text, at);
    const std::string_view character = text.substr(at, length);
    out += is_upper(code_point(text, at)) ? lower(character) : upper(character);
    at += length;
  }
  return out;
}

template <bool (*kIs)(char32_t)>
Value all_method(Runtime& runtime, const Value& self, const Arguments&) {
  const std::string& text = self.text();
  runtime.budget.spend_bytes(text.size());
  for (size_t at = 0; at < text.size(); at += char_bytes(text, at)) {
    if (!kIs(code_point(text, at))) return Value(false);
  }
  return Value(!text.empty());
}
bool is_alnum(char32_t point) { return is_alpha(point) || is_digit(point); }

// isupper, islower: no letter of the other case, and at least one of this.
template <bool (*kIs)(char32_t), bool (*kOther)(char32_t)>
Value case_method(Runtime& runtime, const Value& self, const Arguments&) {
  const std::string& text = self.text();
  runtime.budget.spend_bytes(text.size());
  bool any = false;
  for (size_t at = 0; at < text.size(); at += char_bytes(text, at)) {
    const char32_t point = code_point(text, at);
    if (kOther(point)) return Value(false);
    any = any || kIs(point);
  }
  return Value(any);
}

template <char kAlign>
Value justify_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto args = bind("justify", arguments, {{"width"}, {"fillchar", Value(" ")}});
  const int64_t missing = as_integer(args[0], "a width") - char_count(self.text());
  const std::string& fill = text_argument(args[1], "fillchar");
  if (missing <= 0) return self;
  runtime.budget.spend(missing);
  // Python puts the odd one left where the width is odd.
  const int64_t left = kAlign == '<'   ? 0
                       : kAlign == '>' ? missing
                                       : missing / 2 + (missing & (missing + char_count(self.text())) & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += self.text();
  for (int64_t i = left; i < missing; ++i) out += fill;
  return like(self, std::move(out));
}

Value zfill_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const int64_t missing = as_integer(bind("zfill", arguments, {{"width"}})[0], "a width") - char_count(self.text());
  if (missing <= 0) return self;
  runtime.budget.spend(missing);
  const bool sign = self.text().starts_with('-') || self.text().starts_with('+');
  return like(self, self.text().substr(0, sign ? 1 : 0) + std::string(static_cast<size_t>(missing), '0') +
                        self.text().substr(sign ? 1 : 0));
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

Value format_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (!self.is_markup()) return like(self, format_braces(runtime, self.text(), arguments));
  Arguments escaped = arguments;
  const auto escape = [](Value& value) {
    if (value.is_text() && !value.is_markup()) value = Value(escape_html(value.text()), true);
  };
  for (Value& value : escaped.positional) escape(value);
  for (auto& entry : escaped.named) escape(entry.second);
  return like(self, format_braces(runtime, self.text(), escaped));
}

Value get_method(Runtime&, const Value& self, const Arguments& arguments) {
  const auto args = bind("get", arguments, {{"key"}, {"default", Value()}});
  const Value* found = self.dict().find(args[0]);
  return found == nullptr ? args[1] : *found;
}

template <Sequence::Kind kKind>
Value view_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  (void)bind("items", arguments, {});
  std::vector<Value> items;
  runtime.budget.spend(static_cast<int64_t>(self.dict().entries.size()) * 2);
  for (const auto& [key, value] : self.dict().entries) {
    if (kKind == Sequence::Kind::kItems) {
      items.push_back(make_sequence({key, value}, Sequence::Kind::kTuple));
    } else {
      items.push_back(kKind == Sequence::Kind::kKeys ? key : value);
    }
  }
  return make_sequence(std::move(items), kKind);
}

Value copy_method(Runtime&, const Value& self, const Arguments&) { return self; }

Value index_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value wanted = bind("index", arguments, {{"value"}})[0];
  const auto& items = self.sequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(items[i], wanted, runtime.budget)) return Value(static_cast<int64_t>(i));
  }
  throw Failure{fmt::format("{} is not in list", repr(wanted, runtime.budget))};
}

Value count_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value wanted = bind("count", arguments, {{"value"}})[0];
  int64_t count = 0;
  for (const Value& have : self.sequence().items) count += equal(have, wanted, runtime.budget) ? 1 : 0;
  return Value(count);
}

Value is_integer_method(Runtime&, const Value& self, const Arguments&) {
  return Value(self.real() == static_cast<double>(static_cast<int64_t>(self.real())));
}

constexpr std::array kTextMethods = {
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
    NamedMethod{"join", join_method},
    NamedMethod{"upper", map_method<upper>},
    NamedMethod{"lower", map_method<lower>},
    NamedMethod{"casefold", map_method<lower>},
    NamedMethod{"capitalize", map_method<capitalize>},
    NamedMethod{"title", map_method<title>},
    NamedMethod{"swapcase", map_method<swapcase>},
    NamedMethod{"isspace", all_method<is_space>},
    NamedMethod{"isalpha", all_method<is_alpha>},
    NamedMethod{"isdigit", all_method<is_digit>},
    NamedMethod{"isnumeric", all_method<is_digit>},
    NamedMethod{"isdecimal", all_method<is_digit>},
    NamedMethod{"isalnum", all_method<is_alnum>},
    NamedMethod{"isupper", case_method<is_upper, is_lower>},
    NamedMethod{"islower", case_method<is_lower, is_upper>},
    NamedMethod{"ljust", justify_method<'<'>},
    NamedMethod{"rjust", justify_method<'>'>},
    NamedMethod{"center", justify_method<'^'>},
    NamedMethod{"zfill", zfill_method},
    NamedMethod{"partition", partition_method<false>},
    NamedMethod{"rpartition", partition_method<true>},
    NamedMethod{"removeprefix", remove_affix_method<true>},
    NamedMethod{"removesuffix", remove_affix_method<false>},
    NamedMethod{"format", format_method},
};

constexpr std::array kDictMethods = {
    NamedMethod{"get", get_method},
    NamedMethod{"keys", view_method<Sequence::Kind::kKeys>},
    NamedMethod{"values", view_method<Sequence::Kind::kValues>},
    NamedMethod{"items", view_method<Sequence::Kind::kItems>},
    NamedMethod{"copy", copy_method},
};

constexpr std::array kListMethods = {
    NamedMethod{"index", index_method},
    NamedMethod{"count", count_method},
    NamedMethod{"copy", copy_method},
};

constexpr std::array kFloatMethods = {NamedMethod{"is_integer", is_integer_method}};

constexpr std::array<std::string_view, 5> kDictMutators = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 8> kListMutators = {"append", "clear", "pop",    "reverse",
                                                           "insert", "sort",  "extend", "remove"};

template <size_t kCount>
std::optional<Value> find_in(const std::array<NamedMethod, kCount>& table, const Value& self, std::string_view name) {
  for (const NamedMethod& entry : table) {
    if (entry.name == name) return Value(std::make_shared<BoundMethod>(self, entry.method));
  }
  return std::nullopt;
}

template <size_t kCount>
bool refuses(const std::array<std::string_view, kCount>& mutators, std::string_view name) {
  return std::find(mutators.begin(), mutators.end(), name) != mutators.end();
}

}  // namespace

std::optional<Value> find_method(const Value& self, std::string_view name) {
  const auto refused = [&] {
    return make_undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(self)));
  };
  if (self.is_text()) return find_in(kTextMethods, self, name);
  if (self.is_dict()) return refuses(kDictMutators, name) ? refused() : find_in(kDictMethods, self, name);
  if (self.is_float()) return find_in(kFloatMethods, self, name);
  if (self.is_sequence()) {
    if (self.sequence().kind == Sequence::Kind::kList && refuses(kListMutators, name)) return refused();
    const bool indexable = self.sequence().kind <= Sequence::Kind::kRange;
    return indexable ? find_in(kListMethods, self, name) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace spillway::data::jinja
