#include "config/yaml_scalar.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace spillway::config {
namespace {

using Json = nlohmann::ordered_json;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// In lower case, with a first capital or in capitals.
std::optional<bool> boolean(std::string_view text) {
  std::string lower(text), title, upper(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  title = lower;
  if (!title.empty()) title[0] = upper[0];
  if (text != lower && text != title && text != upper) return {};
  for (const std::string_view word : {"yes", "true", "on"}) {
    if (lower == word) return true;
  }
  for (const std::string_view word : {"no", "false", "off"}) {
    if (lower == word) return false;
  }
  return {};
}

// Takes digits, and the underscores between and behind them, off the front of `rest`. False where there is no digit.
bool take_digits(std::string_view& rest, std::string& digits) {
  if (rest.empty() || !is_digit(rest[0])) return false;
  while (!rest.empty() && (is_digit(rest[0]) || rest[0] == '_')) {
    if (rest[0] != '_') digits += rest[0];
    rest.remove_prefix(1);
  }
  return true;
}

template <typename T>
std::optional<Json> parsed(const std::string& digits) {
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

// A number has a point, and the sign of an exponent is written out.
std::optional<Json> number(std::string_view text) {
  std::string digits;
  std::string_view rest = text;
  if (rest.starts_with('-') || rest.starts_with('+')) {
    if (rest[0] == '-') digits += '-';
    rest.remove_prefix(1);
  }
  const std::string_view whole = rest;
  const bool has_whole = take_digits(rest, digits);
  if (rest.empty()) {
    if (!has_whole || (whole.size() > 1 && whole[0] == '0')) return {};
    return parsed<int64_t>(digits);
  }
  if (rest[0] != '.') return {};
  rest.remove_prefix(1);
  digits += '.';
  if (!take_digits(rest, digits) && !has_whole) return {};
  if (!rest.empty()) {
    if (rest.size() < 3 || (rest[0] != 'e' && rest[0] != 'E') || (rest[1] != '-' && rest[1] != '+')) return {};
    digits += rest[1] == '-' ? "e-" : "e";
    rest.remove_prefix(2);
    if (!std::all_of(rest.begin(), rest.end(), is_digit)) return {};
    digits += rest;
  }
  return parsed<double>(digits);
}

}  // namespace

Json json_of(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return nullptr;
    case YamlNode::Kind::kScalar:
      if (node.quoted) return node.text;
      if (const auto value = boolean(node.text)) return *value;
      return number(node.text).value_or(Json(node.text));
    case YamlNode::Kind::kList: {
      Json list = Json::array();
      for (const YamlNode& item : node.items) list.push_back(json_of(item));
      return list;
    }
    case YamlNode::Kind::kMap:
      break;
  }
  Json object = Json::object();
  for (const auto& entry : node.entries) object[entry.key] = json_of(entry.value);
  return object;
}

}  // namespace spillway::config
