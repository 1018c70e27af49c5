// Writes values as text, as Python's str() and repr() do.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/sizes.h"
#include "text/jinja/unicode.h"
#include "text/jinja/value.h"

namespace spillway::text::jinja {
namespace {

void append_repr(std::string& out, const Value& value, Budget& budget);

void append_quoted(std::string& out, std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = single ? '"' : '\'';
  out.push_back(quote);
  for (size_t at = 0; at < text.size();) {
    const size_t length = char_bytes(text, at);
    const char32_t point = code_point(text, at);
    if (point == static_cast<char32_t>(quote) || point == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(point));
    } else if (point == '\n') {
      out += "\\n";
    } else if (point == '\r') {
      out += "\\r";
    } else if (point == '\t') {
      out += "\\t";
    } else if (is_printable(point)) {
      out += text.substr(at, length);
    } else if (point < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(point));
    } else if (point < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(point));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(point));
    }
    at += length;
  }
  out.push_back(quote);
}

void append_items(std::string& out, const std::vector<Value>& items, Budget& budget) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, items[i], budget);
  }
}

void append_sequence(std::string& out, const Sequence& sequence, Budget& budget) {
  std::string_view open = "[", close = "]";
  switch (sequence.kind) {
    case Sequence::Kind::kList:
      break;
    case Sequence::Kind::kTuple:
      open = "(";
      close = sequence.items.size() == 1 ? ",)" : ")";
      break;
    case Sequence::Kind::kRange: {
      const auto& items = sequence.items;
      const int64_t start = items.empty() ? 0 : items[0].integer();
      const int64_t step = items.size() < 2 ? 1 : items[1].integer() - start;
      const int64_t stop = start + step * static_cast<int64_t>(items.size());
      out +=
          step == 1 ? fmt::format("range({}, {})", start, stop) : fmt::format("range({}, {}, {})", start, stop, step);
      return;
    }
    case Sequence::Kind::kKeys:
      open = "dict_keys([";
      close = "])";
      break;
    case Sequence::Kind::kValues:
      open = "dict_values([";
      close = "])";
      break;
    case Sequence::Kind::kItems:
      open = "dict_items([";
      close = "])";
      break;
    case Sequence::Kind::kGenerator:
      out += "<generator object>";
      return;
  }
  out += open;
  append_items(out, sequence.items, budget);
  out += close;
}

void append_repr(std::string& out, const Value& value, Budget& budget) {
  budget.spend(1);
  const size_t before = out.size();
  if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.is_none()) {
    out += "None";
  } else if (value.is_bool()) {
    out += value.boolean() ? "True" : "False";
  } else if (value.is_int()) {
    out += std::to_string(value.integer());
  } else if (value.is_big_integer()) {
    out += value.digits();
  } else if (value.is_float()) {
    out += repr_float(value.real());
  } else if (value.is_text()) {
    if (value.is_markup()) out += "Markup(";
    append_quoted(out, value.text());
    if (value.is_markup()) out += ")";
  } else if (value.is_sequence()) {
    append_sequence(out, value.sequence(), budget);
  } else if (value.is_dict()) {
    out += "{";
    bool first = true;
    for (const auto& [key, item] : value.dict().entries) {
      if (!first) out += ", ";
      first = false;
      append_repr(out, key, budget);
      out += ": ";
      append_repr(out, item, budget);
    }
    out += "}";
  } else {
    out += fmt::format("<{}>", value.object()->type_name());
  }
  budget.spend_bytes(out.size() - before);
}

}  // namespace

std::string to_text(const Value& value, Budget& budget) {
  if (value.is_text()) {
    budget.spend_bytes(value.text().size());
    return value.text();
  }
  if (value.is_undefined()) return {};
  return repr(value, budget);
}

std::string repr(const Value& value, Budget& budget) {
  std::string out;
  append_repr(out, value, budget);
  return out;
}

std::string repr_float(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string scientific(buffer, end);
  // These are the shortest digits; Python writes them out plainly from 1e-4 to 1e16.
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  const bool negative = scientific[0] == '-';
  std::string digits = scientific.substr(negative ? 1 : 0, e - (negative ? 1 : 0));
  if (digits.size() > 1) digits.erase(1, 1);
  const int count = static_cast<int>(digits.size());
  std::string text;
  if (exponent < -4 || exponent >= 16) {
    text = digits.substr(0, 1) + (count > 1 ? "." + digits.substr(1) : "") +
           fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    text = "0." + repeated('0', -exponent - 1) + digits;
  } else if (exponent >= count - 1) {
    text = digits + repeated('0', exponent - count + 1) + ".0";
  } else {
    text = digits.substr(0, static_cast<size_t>(exponent) + 1) + "." + digits.substr(static_cast<size_t>(exponent) + 1);
  }
  return negative ? "-" + text : text;
}

}  // namespace spillway::text::jinja
