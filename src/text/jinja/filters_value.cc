// Filters on single values, and the table of all filters.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/sizes.h"
#include "text/jinja/builtins.h"
#include "text/jinja/json.h"
#include "text/jinja/unicode.h"

namespace spillway::text::jinja {
namespace {

Value fallback(Runtime&, const Value& input, const Arguments& arguments) {
  const auto args = bind("default", arguments, {{"default_value", Value("")}, {"boolean", Value(false)}});
  return input.is_undefined() || (truthy(args[1]) && !truthy(input)) ? args[0] : input;
}

Value length(Runtime&, const Value& input, const Arguments& arguments) {
  (void)bind("length", arguments, {});
  return Value(length_of(input));
}

Value absolute(Runtime&, const Value& input, const Arguments& arguments) {
  (void)bind("abs", arguments, {});
  if (!input.is_number()) {
    if (input.is_undefined()) fail_undefined(input);
    throw Failure{fmt::format("bad operand type for abs(): '{}'", type_name(input))};
  }
  return as_real(input) < 0 ? negate(input) : input.is_bool() ? Value(as_integer(input, "")) : input;
}

Value attr(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Value name = bind("attr", arguments, {{"name"}})[0];
  const std::string text = to_text(name, runtime.budget);
  // Looks for an attribute only: dict items are left out.
  if (input.is_dict()) {
    if (auto method = find_method(input, text)) return *method;
    return make_undefined(fmt::format("'dict object' has no attribute '{}'", text));
  }
  return attribute(runtime, input, text);
}

std::optional<int64_t> parse_int(std::string_view text, int base) {
  text = strip(text, true, true, nullptr);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_' || i == 0 || i + 1 == text.size()) digits.push_back(text[i]);
  }
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  const auto prefix = [&](std::string_view mark) {
    return digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == mark[1] && digits[2] != '-';
  };
  if ((base == 16 && prefix("0x")) || (base == 8 && prefix("0o")) || (base == 2 && prefix("0b"))) digits.erase(0, 2);
  int64_t number = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (digits.empty() || digits[0] == '-' || end.ec != std::errc() || end.ptr != digits.data() + digits.size())
    return std::nullopt;
  return negative ? -number : number;
}

std::optional<double> parse_real(std::string_view text) {
  const std::string trimmed(strip(text, true, true, nullptr));
  if (trimmed.empty() || trimmed.find_first_of("xX(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(trimmed.c_str(), &end);
  if (end != trimmed.c_str() + trimmed.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> whole(double real) {
  if (!(std::fabs(real) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(real);
}

Value integer(Runtime&, const Value& input, const Arguments& arguments) {
  const auto args = bind("int", arguments, {{"default", Value(0)}, {"base", Value(10)}});
  const int64_t base = as_integer(args[1], "base");
  if (base < 2 || base > 36) throw Failure{fmt::format("expected a base from 2 to 36 for int, got {}", base)};
  std::optional<int64_t> number;
  if (input.is_text()) {
    number = parse_int(input.text(), static_cast<int>(base));
    if (!number) {
      if (const auto real = parse_real(input.text())) number = whole(*real);
    }
  } else if (input.is_big_integer()) {
    return input;
  } else if (input.is_float()) {
    number = whole(input.real());
  } else if (input.is_number()) {
    number = as_integer(input, "");
  } else if (input.is_undefined()) {
    fail_undefined(input);
  }
  return number ? Value(*number) : args[0];
}

Value real(Runtime&, const Value& input, const Arguments& arguments) {
  const auto args = bind("float", arguments, {{"default", Value(0.0)}});
  if (input.is_number()) return Value(as_real(input));
  if (input.is_undefined()) fail_undefined(input);
  const auto number = input.is_text() ? parse_real(input.text()) : std::nullopt;
  return number ? Value(*number) : args[0];
}

// Does Python's round: halves go to the even neighbour, in the decimal sense.
Value round_number(Runtime&, const Value& input, const Arguments& arguments) {
  const auto args = bind("round", arguments, {{"precision", Value(0)}, {"method", Value("common")}});
  if (!input.is_number()) throw Failure{fmt::format("expected a number for round, got '{}'", type_name(input))};
  const int64_t precision = std::clamp<int64_t>(as_integer(args[0], "precision"), -300, 300);
  const std::string method = args[1].is_text() ? args[1].text() : "";
  const double number = as_real(input);
  if (method == "common") {
    if (precision >= 0) {
      if (input.is_int() || input.is_big_integer()) return input;
      return Value(std::strtod(fmt::format("{:.{}f}", number, static_cast<int>(precision)).c_str(), nullptr));
    }
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    const double rounded = std::nearbyint(number / unit) * unit;
    return input.is_int() ? Value(static_cast<int64_t>(rounded)) : Value(rounded);
  }
  if (method != "ceil" && method != "floor") throw Failure{"method must be common, ceil or floor"};
  const double unit = std::pow(10.0, static_cast<double>(precision));
  return Value((method == "ceil" ? std::ceil(number * unit) : std::floor(number * unit)) / unit);
}

Value tojson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto args =
      bind("tojson", arguments,
           {{"ensure_ascii", Value(false)}, {"indent", Value()}, {"separators", Value()}, {"sort_keys", Value(false)}});
  JsonStyle style;
  style.ensure_ascii = truthy(args[0]);
  style.sort_keys = truthy(args[3]);
  if (!args[1].is_none()) {
    style.lines = true;
    style.item_separator.pop_back();  // the space: a line ends there
    style.indent =
        args[1].is_text() ? args[1].text() : repeated(' ', std::clamp<int64_t>(as_integer(args[1], "indent"), 0, 1000));
  }
  if (!args[2].is_none()) {
    const auto pair = items_of(args[2], runtime.budget);
    if (pair.size() != 2 || !pair[0].is_text() || !pair[1].is_text())
      throw Failure{"expected two strings for separators, got something else"};
    style.item_separator = pair[0].text();
    style.key_separator = pair[1].text();
  }
  return Value(to_json(input, style, runtime.budget));
}

Value fromjson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  (void)bind("from_json", arguments, {});
  if (!input.is_text()) throw Failure{fmt::format("expected text for from_json, got '{}'", type_name(input))};
  return parse_json(input.text(), runtime.budget);
}

constexpr std::array kValueFilters = {
    NamedFilter{"default", fallback}, NamedFilter{"d", fallback},         NamedFilter{"length", length},
    NamedFilter{"count", length},     NamedFilter{"abs", absolute},       NamedFilter{"attr", attr},
    NamedFilter{"int", integer},      NamedFilter{"float", real},         NamedFilter{"round", round_number},
    NamedFilter{"tojson", tojson},    NamedFilter{"from_json", fromjson},
};

Filter find_filter(std::string_view name) {
  if (const Filter filter = find_value_filter(name)) return filter;
  if (const Filter filter = find_text_filter(name)) return filter;
  return find_sequence_filter(name);
}

}  // namespace

Filter find_value_filter(std::string_view name) {
  const auto* found =
      std::find_if(kValueFilters.begin(), kValueFilters.end(), [&](const NamedFilter& f) { return f.name == name; });
  return found == kValueFilters.end() ? nullptr : found->filter;
}

bool filter_exists(std::string_view name) { return find_filter(name) != nullptr; }

Value apply_filter(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  const Filter filter = find_filter(name);
  if (filter == nullptr) throw Failure{fmt::format("expected a filter of Jinja's, got '{}'", name)};
  return filter(runtime, input, arguments);
}

}  // namespace spillway::text::jinja
