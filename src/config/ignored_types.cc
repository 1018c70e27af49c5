#include "config/ignored_types.h"

#include <unordered_map>

#include "config/embedded_keys.h"

namespace spillway::config {
namespace {

// Returns the type that ignored_types.yml has for a key; empty for a key that it does not name.
std::string_view type_of_ignored(std::string_view key) {
  static const YamlNode kTable = parse_yaml(kIgnoredTypes, "ignored_types.yml");
  static const std::unordered_map<std::string_view, std::string_view> kTypes = [] {
    std::unordered_map<std::string_view, std::string_view> types;
    for (const YamlNode::Entry& type : kTable.entries) {
      for (const YamlNode& name : type.value.items) types.emplace(name.text, type.key);
    }
    return types;
  }();
  const auto found = kTypes.find(key);
  return found == kTypes.end() ? "" : found->second;
}

template <typename T>
void check_readable(const YamlNode& node, const KeyPlace& place) {
  T value{};
  read_value(node, place, {}, value);
}

// TRL takes a mapping as JSON text, too.
void check_mapping(const YamlNode& node, const KeyPlace& place) {
  if (node.kind == YamlNode::Kind::kMap || (node.kind == YamlNode::Kind::kScalar && node.text.starts_with('{'))) return;
  throw input_error(place.text(), "expected a mapping, got {}; write `name: value` lines below the key", node.shown());
}

}  // namespace

void check_ignored_value(std::string_view key, const YamlNode& node, const KeyPlace& place) {
  const std::string_view type = type_of_ignored(key);
  const bool is_list = node.kind == YamlNode::Kind::kList, is_number = type == "integer" || type == "number";
  if (is_number && boolean_of(node)) return;  // Python's numbers
  if (type == "flag") {
    check_readable<bool>(node, place);
  } else if (type == "integer") {
    check_readable<int64_t>(node, place);
  } else if (type == "number") {
    check_readable<double>(node, place);
  } else if (type == "text" || (type == "text or list" && !is_list)) {
    check_readable<std::string>(node, place);
  } else if (type == "list" && !is_list) {
    throw input_error(place.text(), "expected a list, got {}; write `- value` lines or [a, b]", node.shown());
  } else if (type == "mapping") {
    check_mapping(node, place);
  }
}

}  // namespace spillway::config
