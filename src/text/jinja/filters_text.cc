// Filters that give text.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/index.h"
#include "base/sizes.h"
#include "text/jinja/builtins.h"
#include "text/jinja/unicode.h"

namespace spillway::text::jinja {
namespace {

// Does Jinja's soft_str: returns text unchanged (with its mark), anything else as str().
Value soft_text(Runtime& runtime, const Value& value) {
  return value.is_text() ? value : Value(to_text(value, runtime.budget));
}

Value call_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& arguments) {
  return call(runtime, *find_method(self, name), arguments);
}

Value trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args = bind("trim", arguments, {{"chars", Value()}});
  return call_method(runtime, soft_text(runtime, input), "strip", {args, {}});
}

template <int kMethod>
Value case_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  static constexpr std::array<std::string_view, 3> kNames = {"upper", "lower", "capitalize"};
  (void)bind(kNames[kMethod], arguments, {});
  return call_method(runtime, soft_text(runtime, input), kNames[kMethod], {});
}

// Capitalises each start of a word, where words begin after white space, hyphens and opening brackets.
Value title(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("title", arguments, {});
  const std::string text = to_text(input, runtime.budget);
  std::string out;
  bool start = true;
  for (size_t at = 0; at < text.size();) {
    const size_t length = char_bytes(text, at);
    const std::string_view character = std::string_view(text).substr(at, length);
    const bool separates =
        is_space(code_point(text, at)) || std::string_view("-({[<").find(character) != std::string_view::npos;
    out += separates ? std::string(character) : start ? upper(character) : lower(character);
    start = separates;
    at += length;
  }
  return Value(std::move(out));
}

Value replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  auto args = bind("replace", arguments, {{"old"}, {"new"}, {"count", Value()}});
  if (args[2].is_none()) args[2] = Value(-1);
  const Value from(to_text(args[0], runtime.budget)), to(to_text(args[1], runtime.budget));
  return call_method(runtime, Value(to_text(input, runtime.budget)), "replace", {{from, to, args[2]}, {}});
}

Value string(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("string", arguments, {});
  return soft_text(runtime, input);
}

Value safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("safe", arguments, {});
  return Value(to_text(input, runtime.budget), true);
}

template <bool kAlways>
Value escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("escape", arguments, {});
  const std::string text = to_text(input, runtime.budget);
  return Value(input.is_markup() && !kAlways ? text : escape_html(text), true);
}

Value indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args = bind("indent", arguments, {{"width", Value(4)}, {"first", Value(false)}, {"blank", Value(false)}});
  const std::string margin =
      args[0].is_text() ? args[0].text() : repeated(' ', std::clamp<int64_t>(as_integer(args[0], "width"), 0, 10000));
  const bool blank = truthy(args[2]);
  // Jinja adds a newline so that a final empty line counts as a line.
  const Value text(to_text(input, runtime.budget) + "\n");
  const Value lines = call_method(runtime, text, "splitlines", {});
  std::string out = truthy(args[1]) ? margin : "";
  bool first = true;
  for (const Value& line : lines.sequence().items) {
    if (!first) out += "\n";
    if (!first && (blank || !line.text().empty())) out += margin;
    first = false;
    out += line.text();
    runtime.budget.spend_bytes(line.text().size() + margin.size());
  }
  return Value(std::move(out), input.is_markup());
}

Value truncate(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args =
      bind("truncate", arguments,
           {{"length", Value(255)}, {"killwords", Value(false)}, {"end", Value("...")}, {"leeway", Value()}});
  const std::string text = to_text(input, runtime.budget), end = to_text(args[2], runtime.budget);
  const int64_t length = as_integer(args[0], "length");
  const int64_t leeway = args[3].is_none() ? 5 : as_integer(args[3], "leeway");
  const auto offsets = char_offsets(text);
  const int64_t room = length - char_count(end);
  if (room < 0) throw Failure{fmt::format("expected length >= {} for truncate, got {}", char_count(end), length)};
  if (static_cast<int64_t>(offsets.size()) - 1 <= length + leeway) return Value(text);
  std::string kept = text.substr(0, nth(offsets, room));
  if (!truthy(args[1])) kept = kept.substr(0, kept.rfind(' '));
  return Value(kept + end);
}

Value wordcount(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("wordcount", arguments, {});
  const std::string text = to_text(input, runtime.budget);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size(); at += char_bytes(text, at)) {
    const char32_t point = code_point(text, at);
    const bool word = is_alpha(point) || is_digit(point) || point == '_';
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value(words);
}

Value center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args = bind("center", arguments, {{"width", Value(80)}});
  return call_method(runtime, soft_text(runtime, input), "center", {args, {}});
}

Value format(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    throw Failure{"can't handle positional and keyword arguments at the same time"};
  }
  Value values = make_sequence(arguments.positional, Sequence::Kind::kTuple);
  if (!arguments.named.empty()) {
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [name, value] : arguments.named) entries.emplace_back(Value(name), value);
    values = make_dict(entries);
  }
  return binary(runtime, "%", soft_text(runtime, input), values);
}

constexpr std::array kTextFilters = {
    NamedFilter{"trim", trim},
    NamedFilter{"upper", case_filter<0>},
    NamedFilter{"lower", case_filter<1>},
    NamedFilter{"capitalize", case_filter<2>},
    NamedFilter{"title", title},
    NamedFilter{"replace", replace},
    NamedFilter{"string", string},
    NamedFilter{"safe", safe},
    NamedFilter{"escape", escape<false>},
    NamedFilter{"e", escape<false>},
    NamedFilter{"forceescape", escape<true>},
    NamedFilter{"indent", indent},
    NamedFilter{"truncate", truncate},
    NamedFilter{"wordcount", wordcount},
    NamedFilter{"center", center},
    NamedFilter{"format", format},
};

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

Filter find_text_filter(std::string_view name) {
  const auto* found =
      std::find_if(kTextFilters.begin(), kTextFilters.end(), [&](const NamedFilter& f) { return f.name == name; });
  return found == kTextFilters.end() ? nullptr : found->filter;
}

}  // namespace spillway::text::jinja
