// Implements "..." % values and "...".format(...).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/index.h"
#include "base/sizes.h"
#include "text/jinja/builtins.h"
#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace spillway::text::jinja {
namespace {

constexpr int kMaxWidth = 10000;

// The format [[fill]align][sign][#][0][width][,][.precision][type], the common language of both notations.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =
  char sign = 0;   // + or space
  bool alternate = false;
  char group = 0;  // , or _
  int width = 0;
  int precision = -1;
  char type = 0;
};

int read_number(std::string_view text, size_t& at) {
  int number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    number = number * 10 + (text[at] - '0');
    if (number > kMaxWidth)
      throw Failure{fmt::format("expected a width of at most {} in a format, got more", kMaxWidth)};
  }
  return number;
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const size_t first = text.empty() ? 0 : char_bytes(text, 0);
  if (first < text.size() && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  const auto take = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != std::string_view::npos ? text[at++] : '\0';
  };
  spec.sign = take("+- ");
  if (spec.sign == '-') spec.sign = 0;
  spec.alternate = take("#") != 0;
  if (take("0") != 0 && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = read_number(text, at);
  spec.group = take(",_");
  if (take(".") != 0) spec.precision = read_number(text, at);
  spec.type = take("sdbcoxXeEfFgG%n");
  if (at != text.size()) throw Failure{fmt::format("expected a format specification, got '{}'", text)};
  return spec;
}

std::string pad(const Spec& spec, char fallback_align, std::string_view sign, const std::string& body) {
  const char align = spec.align != 0 ? spec.align : fallback_align;
  const int64_t missing = spec.width - char_count(body) - static_cast<int64_t>(sign.size());
  std::string text;
  const auto fill = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) text += spec.fill;
  };
  if (align == '=') text += sign;
  if (align == '>' || align == '=') fill(missing);
  if (align == '^') fill(missing / 2);
  if (align != '=') text += sign;
  text += body;
  if (align == '<') fill(missing);
  if (align == '^') fill(missing - missing / 2);
  return text;
}

std::string group_digits(std::string digits, char separator) {
  const size_t point = std::min(digits.find('.'), digits.size());
  for (size_t at = point; at > 3; at -= 3) digits.insert(at - 3, 1, separator);
  return digits;
}

std::string sign_of(bool negative, const Spec& spec) {
  return negative ? "-" : spec.sign != 0 ? std::string(1, spec.sign) : "";
}

std::string format_integer(int64_t number, const Spec& spec) {
  const uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  std::string digits;
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude);
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude);
      break;
    case 'b':
      digits = fmt::format("{:b}", magnitude);
      break;
    default:
      digits = std::to_string(magnitude);
  }
  if (const int64_t missing = spec.precision - std::ssize(digits); missing > 0)
    digits = repeated('0', missing) + digits;
  std::string sign = sign_of(number < 0, spec);
  if (spec.alternate && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b'))
    sign += std::string("0") + spec.type;
  if (spec.group != 0) digits = group_digits(std::move(digits), spec.group);
  return pad(spec, '>', sign, digits);
}

std::string format_real(double number, const Spec& spec) {
  const bool negative = std::signbit(number) && !std::isnan(number);
  const double magnitude = std::fabs(number);
  std::string digits;
  if (spec.type == 0 && spec.precision < 0) {
    digits = repr_float(magnitude);
  } else {
    const int precision = std::min(spec.precision < 0 ? 6 : spec.precision, 400);
    const char type = spec.type == '%' ? 'f' : spec.type == 0 || spec.type == 'n' ? 'g' : spec.type;
    const char pattern[] = {'%', '.', '*', type, '\0'};
    auto buffer = make_vector<char>(precision + 400);
    const int length =
        std::snprintf(buffer.data(), buffer.size(), pattern, precision, spec.type == '%' ? magnitude * 100 : magnitude);
    digits.assign(buffer.data(), buffer.data() + std::max(length, 0));
    if (spec.type == '%') digits += "%";
  }
  if (spec.group != 0) digits = group_digits(std::move(digits), spec.group);
  return pad(spec, '>', sign_of(negative, spec), digits);
}

bool is_real_type(char type) { return std::string_view("eEfFgG%").find(type) != std::string_view::npos && type != 0; }

// Does format(value, spec).
std::string format_value(Runtime& runtime, const Value& value, std::string_view text) {
  if (text.empty()) return to_text(value, runtime.budget);
  const Spec spec = parse_spec(text);
  runtime.budget.spend_bytes(static_cast<size_t>(spec.width) + 64);
  if (value.is_int() || (value.is_bool() && spec.type != 0 && spec.type != 's')) {
    if (is_real_type(spec.type)) return format_real(as_real(value), spec);
    if (spec.type != 's') return format_integer(as_integer(value, ""), spec);
  }
  if (value.is_float() && spec.type != 's') return format_real(value.real(), spec);
  if (value.is_text() || value.is_bool()) {
    if (spec.type != 0 && spec.type != 's')
      throw Failure{fmt::format("unknown format code '{}' for object of type '{}'", spec.type, type_name(value))};
    std::string body = to_text(value, runtime.budget);
    if (spec.precision >= 0 && spec.precision < char_count(body)) body.resize(nth(char_offsets(body), spec.precision));
    return pad(spec, '<', "", body);
  }
  throw Failure{fmt::format("unsupported format string '{}' for '{}'", text, type_name(value))};
}

// Formats one %-conversion; `at` stands after the percent sign and is moved past the conversion.
class Percent {
 public:
  Percent(Runtime& runtime, std::string_view format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {
    tuple_ = values.is_sequence() && values.sequence().kind == Sequence::Kind::kTuple;
  }

  std::string run() {
    std::string out;
    for (size_t at = 0; at < format_.size();) {
      if (format_[at] != '%') {
        out.push_back(format_[at++]);
        continue;
      }
      ++at;
      out += convert(at);
    }
    const size_t given = tuple_ ? values_.sequence().items.size() : 1;
    if (used_ < given && !named_ && !values_.is_dict() && !(values_.is_sequence() && !tuple_)) {
      throw Failure{"not all arguments converted during string formatting"};
    }
    return out;
  }

 private:
  Value next() {
    if (!tuple_) {
      if (used_++ > 0) throw Failure{"not enough arguments for format string"};
      return values_;
    }
    if (used_ >= values_.sequence().items.size()) throw Failure{"not enough arguments for format string"};
    return values_.sequence().items[used_++];
  }

  std::string convert(size_t& at) {
    Spec spec;
    std::optional<Value> value;
    if (at < format_.size() && format_[at] == '(') {
      const size_t end = format_.find(')', at);
      if (end == std::string_view::npos || !values_.is_dict()) throw Failure{"format requires a mapping"};
      value = item(runtime_, values_, Value(format_.substr(at + 1, end - at - 1)));
      if (value->is_undefined()) fail_undefined(*value);
      named_ = true;
      at = end + 1;
    }
    for (; at < format_.size() && std::string_view("#0- +").find(format_[at]) != std::string_view::npos; ++at) {
      const char flag = format_[at];
      if (flag == '-') spec.align = '<';
      if (flag == '0' && spec.align == 0) spec.align = '=', spec.fill = "0";
      if (flag == '+' || flag == ' ') spec.sign = flag;
      if (flag == '#') spec.alternate = true;
    }
    if (spec.align == '<') spec.fill = " ";
    spec.width = read_number(format_, at);
    if (at < format_.size() && format_[at] == '.') spec.precision = read_number(format_, ++at);
    if (at >= format_.size()) throw Failure{"incomplete format"};
    spec.type = format_[at++];
    runtime_.budget.spend_bytes(static_cast<size_t>(spec.width) + 64);
    if (spec.type == '%') return "%";
    if (!value) value = next();
    return apply(spec, *value);
  }

  std::string apply(Spec spec, const Value& value) {
    const char type = spec.type;
    if (type == 's' || type == 'r' || type == 'a') {
      std::string body = type == 's' ? to_text(value, runtime_.budget) : repr(value, runtime_.budget);
      if (spec.precision >= 0 && spec.precision < char_count(body))
        body.resize(nth(char_offsets(body), spec.precision));
      if (spec.align == '=') spec.align = '>', spec.fill = " ";
      return pad(spec, '>', "", body);
    }
    if (!value.is_number()) {
      if (value.is_undefined()) fail_undefined(value);
      throw Failure{fmt::format("%{} format: a number is required, not {}", type, type_name(value))};
    }
    if (is_real_type(type) && type != '%') return format_real(as_real(value), spec);
    if (type == 'd' || type == 'i' || type == 'u' || type == 'x' || type == 'X' || type == 'o') {
      const double real = as_real(value);
      if (value.is_float() && !(std::fabs(real) < 9e18))
        throw Failure{"expected an integer of 64 bits for a format, got a larger one"};
      return format_integer(value.is_float() ? static_cast<int64_t>(real) : as_integer(value, ""), spec);
    }
    throw Failure{fmt::format("unsupported format character '{}'", type)};
  }

  Runtime& runtime_;
  std::string_view format_;
  const Value& values_;
  bool tuple_ = false, named_ = false;
  size_t used_ = 0;
};

// Formats {name.attribute[item]!r:spec}.
class Braces {
 public:
  Braces(Runtime& runtime, const Arguments& arguments) : runtime_(runtime), arguments_(arguments) {}

  std::string run(std::string_view format, int level = 0) {
    if (level > 1) throw Failure{"Max string recursion exceeded"};
    std::string out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      const bool doubled = at + 1 < format.size() && format[at + 1] == c;
      if (c == '}' && !doubled) throw Failure{"Single '}' encountered in format string"};
      if ((c == '{' || c == '}') && doubled) {
        out.push_back(c);
        at += 2;
      } else if (c == '{') {
        const size_t end = closing(format, at + 1);
        out += field(format.substr(at + 1, end - at - 1), level);
        at = end + 1;
      } else {
        out.push_back(c);
        ++at;
      }
    }
    return out;
  }

 private:
  static size_t closing(std::string_view format, size_t at) {
    for (int open = 1; at < format.size(); ++at) {
      open += format[at] == '{' ? 1 : format[at] == '}' ? -1 : 0;
      if (open == 0) return at;
    }
    throw Failure{"Single '{' encountered in format string"};
  }

  std::string field(std::string_view text, int level) {
    const size_t colon = text.find(':');
    std::string_view name = text.substr(0, colon);
    const std::string spec = colon == std::string_view::npos ? "" : run(text.substr(colon + 1), level + 1);
    char conversion = 0;
    if (name.size() >= 2 && name[name.size() - 2] == '!') {
      conversion = name.back();
      name.remove_suffix(2);
    }
    Value value = look_up(name);
    if (conversion == 'r') value = Value(repr(value, runtime_.budget));
    if (conversion == 's') value = Value(to_text(value, runtime_.budget));
    return format_value(runtime_, value, spec);
  }

  Value look_up(std::string_view name) {
    size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, at));
    while (at < name.size()) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        value = attribute(runtime_, value, name.substr(at + 1, end - at - 1));
        at = end;
      } else {
        const size_t end = name.find(']', at);
        if (end == std::string_view::npos) throw Failure{"Missing ']' in format string"};
        value = item(runtime_, value, key(name.substr(at + 1, end - at - 1)));
        at = end + 1;
      }
    }
    return value;
  }

  static Value key(std::string_view text) {
    int64_t index = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), index);
    return end.ec == std::errc() && end.ptr == text.data() + text.size() ? Value(index) : Value(text);
  }

  Value first(std::string_view name) {
    const Value index = name.empty() ? Value(automatic_++) : key(name);
    if (index.is_int()) {
      if (index.integer() < 0 || index.integer() >= static_cast<int64_t>(arguments_.positional.size())) {
        throw Failure{"Replacement index out of range for positional args tuple"};
      }
      return nth(arguments_.positional, index.integer());
    }
    for (const auto& [have, value] : arguments_.named) {
      if (have == name) return value;
    }
    throw Failure{fmt::format("expected an argument named '{}' for format(), got none", name)};
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  int64_t automatic_ = 0;
};

}  // namespace

std::string format_percent(Runtime& runtime, std::string_view format, const Value& values) {
  runtime.budget.spend_bytes(format.size());
  return Percent(runtime, format, values).run();
}

std::string format_braces(Runtime& runtime, std::string_view format, const Arguments& arguments) {
  runtime.budget.spend_bytes(format.size());
  return Braces(runtime, arguments).run(format);
}

}  // namespace spillway::text::jinja
