// The values of keys about adapters that are no plain type.
#include "config/module_pattern.h"
#include "config/values.h"

namespace spillway::config {
namespace {

constexpr std::string_view kAllLinear = "all-linear";

}  // namespace

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, TargetModules& value) {
  value = {};
  std::vector<std::string> names;
  read_value(node, place, range, names);
  const bool is_text = node.kind == YamlNode::Kind::kScalar;
  if (names.size() != 1 || names[0] == kAllLinear || (!is_text && !is_module_pattern(names[0]))) {
    value.names = std::move(names);
    return;
  }
  const std::string& text = names[0];
  // A path has dots, which only a dot, literal or not, or a set can match.
  if (!is_module_pattern(text) && text.find('.') == std::string::npos) {
    throw input_error(place.text(),
                      "expected a list of names, or a pattern that whole paths match, got the text {}; write [{}]",
                      quote(text), text);
  }
  check_module_pattern(text, place.text());
  value.pattern = text;
}

std::string print_value(const TargetModules& value) {
  return value.pattern.empty() ? print_value(value.names) : value.pattern;
}

}  // namespace spillway::config
