// The options of an optimizer: which there are is the optimizer's to say.
#include <algorithm>

#include "config/values.h"

namespace spillway::config {
namespace {

void add_option(const YamlNode& node, const KeyPlace& place, std::string_view name, OptimArgs& value) {
  const auto same = [&](const OptimArg& one) { return one.name == name; };
  if (std::any_of(value.items.begin(), value.items.end(), same))
    throw input_error(place.text(), "expected each option once, got {} twice; remove one", quote(name));
  const auto number = number_of(node);
  const auto flag = boolean_of(node);
  if (!number && !flag)
    throw input_error(place.text(), "expected a number, true or false for {}, got {}; write one", name, node.shown());
  value.items.push_back({std::string(name), number ? *number : *flag ? 1.0 : 0.0, place.text()});
}

}  // namespace

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, OptimArgs& value) {
  value.items.clear();
  if (node.kind == YamlNode::Kind::kMap) {
    for (const auto& entry : node.entries) {
      if (!entry.value.is_null()) add_option(entry.value, place.at(entry), entry.key, value);
    }
    return;
  }
  if (node.kind != YamlNode::Kind::kScalar)
    throw input_error(place.text(), "expected a mapping or a text like \"momentum=0.9\", got {}; write one",
                      node.shown());
  // As transformers reads it: without spaces, between commas.
  std::string text = node.text;
  std::erase(text, ' ');
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view option = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw input_error(place.text(), "expected name=value between commas, got {}; write it so", quote(option));
    add_option(YamlNode::scalar(std::string(option.substr(equals + 1))), place, option.substr(0, equals), value);
  }
}

}  // namespace spillway::config
