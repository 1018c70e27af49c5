// Methods of strings that join, format, pad, and ask or change what kind their characters are.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/sizes.h"
#include "text/jinja/builtins.h"
#include "text/jinja/methods.h"
#include "text/jinja/unicode.h"

namespace spillway::text::jinja {
namespace {

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

std::string title_of(std::string_view text) {
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

// Does isupper and islower: no letter of the other case, and at least one of this.
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
  // Python puts the odd one left if the width is odd.
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
  return like(self, self.text().substr(0, sign ? 1 : 0) + repeated('0', missing) + self.text().substr(sign ? 1 : 0));
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

constexpr std::array kFormMethods = {
    NamedMethod{"join", join_method},
    NamedMethod{"upper", map_method<upper>},
    NamedMethod{"lower", map_method<lower>},
    NamedMethod{"casefold", map_method<lower>},
    NamedMethod{"capitalize", map_method<capitalize>},
    NamedMethod{"title", map_method<title_of>},
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
    NamedMethod{"format", format_method},
};

}  // namespace

Method find_form_method(std::string_view name) { return find_in(kFormMethods, name); }

}  // namespace spillway::text::jinja
