// The options of a schedule: which there are is the schedule's to say.
#include "config/values.h"

namespace spillway::config {

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, SchedulerArgs& value) {
  value.items.clear();
  if (node.kind == YamlNode::Kind::kScalar && node.text.find_first_not_of(' ') == std::string::npos) return;
  if (node.kind == YamlNode::Kind::kScalar && node.text.starts_with('{'))
    return read_value(parse_yaml(node.text, place.text()), place, range, value);
  if (node.kind != YamlNode::Kind::kMap)
    throw input_error(place.text(), "expected a mapping, got {}; write `name: value` lines below the key",
                      node.shown());
  for (const YamlNode::Entry& entry : node.entries) {
    if (entry.value.is_null()) continue;
    const KeyPlace here = place.at(entry);
    if (entry.value.kind != YamlNode::Kind::kScalar)
      throw input_error(here.text(), "expected a number or a word, got {}; write one value", entry.value.shown());
    value.items.push_back({entry.key, entry.value.text, here.text()});
  }
}

}  // namespace spillway::config
