#include "config/unsupported_keys.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "config/embedded_keys.h"
#include "config/yaml.h"

namespace spillway::config {
namespace {

// Whoever keeps the returned views keeps the tree.
std::vector<std::string_view> texts_of(const YamlNode* node) {
  std::vector<std::string_view> texts;
  if (node == nullptr) return texts;
  if (node->kind == YamlNode::Kind::kScalar) return {node->text};
  for (const YamlNode& item : node->items) texts.push_back(item.text);
  return texts;
}

void add_rows(const YamlNode& entry, std::vector<ConfigKey>& rows) {
  constexpr std::pair<std::string_view, KeyStatus> kStatuses[] = {
      {"ignored", KeyStatus::kIgnored}, {"not_yet", KeyStatus::kNotYet}, {"refused", KeyStatus::kRefused}};
  const YamlNode* keys = entry.find("keys");
  const auto status = std::find_if(std::begin(kStatuses), std::end(kStatuses),
                                   [&](const auto& word) { return entry.find(word.first) != nullptr; });
  SPILLWAY_CHECK(status != std::end(kStatuses) && keys != nullptr, "an entry of the unsupported keys");
  ConfigKey row{.status = status->second, .meaning = entry.find(status->first)->text};
  row.harmless = texts_of(entry.find("off"));
  if (const YamlNode* advice = entry.find("advice")) row.advice = advice->text;
  row.spares_rows = entry.find("spares_rows") != nullptr;
  for (const YamlNode& item : keys->items) {
    const std::vector<std::string_view> names = texts_of(&item);
    row.name = names.front();
    row.aliases.assign(names.begin() + 1, names.end());
    rows.push_back(row);
  }
}

}  // namespace

const std::vector<KeySection>& unsupported_sections() {
  static const YamlNode kTable = parse_yaml(kUnsupportedKeys, "unsupported_keys.yml");
  static const std::vector<KeySection> kSections = [] {
    std::vector<KeySection> sections;
    for (const YamlNode::Entry& section : kTable.entries) {
      sections.push_back({section.key, {}});
      for (const YamlNode& entry : section.value.items) add_rows(entry, sections.back().keys);
    }
    return sections;
  }();
  return kSections;
}

void add_unsupported(KeySection& section) {
  for (const KeySection& more : unsupported_sections()) {
    if (more.title == section.title) section.keys.insert(section.keys.end(), more.keys.begin(), more.keys.end());
  }
}

}  // namespace spillway::config
