#include "config/other_trainers.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "config/embedded_keys.h"
#include "config/keys.h"

namespace spillway::config {
namespace {

OtherKey key_of(const YamlNode::Entry& entry) {
  const YamlNode& value = entry.value;
  if (value.kind == YamlNode::Kind::kScalar) return {entry.key, value.text, ""};
  return {entry.key, value.items.at(0).text, value.items.at(1).text};
}

OtherTrainer trainer_of(const YamlNode::Entry& entry) {
  OtherTrainer trainer{.name = entry.key};
  for (const YamlNode& sign : entry.value.find("signs")->items) trainer.signs.emplace_back(sign.text);
  for (const YamlNode::Entry& key : entry.value.find("keys")->entries) trainer.keys.push_back(key_of(key));
  return trainer;
}

constexpr std::string_view kAnywhere = "*.";

bool has_key_below(const YamlNode& node, std::string_view key) {
  const auto is_below = [&](const YamlNode& child) { return has_key_below(child, key); };
  return node.find(key) != nullptr || std::any_of(node.items.begin(), node.items.end(), is_below) ||
         std::any_of(node.entries.begin(), node.entries.end(), [&](const auto& one) { return is_below(one.value); });
}

bool has_sign(const YamlNode& root, std::string_view sign) {
  if (sign.starts_with(kAnywhere)) return has_key_below(root, sign.substr(kAnywhere.size()));
  return root.find(sign) != nullptr;
}

const OtherKey* find_other_key(const OtherTrainer& trainer, std::string_view name) {
  const auto fits = [&](const OtherKey& key) {
    return key.theirs.ends_with('*') ? name.starts_with(key.theirs.substr(0, key.theirs.size() - 1))
                                     : key.theirs == name;
  };
  const auto found = std::find_if(trainer.keys.begin(), trainer.keys.end(), fits);
  return found == trainer.keys.end() ? nullptr : &*found;
}

bool holds_keys(const OtherTrainer& trainer, std::string_view name) {
  return std::any_of(trainer.keys.begin(), trainer.keys.end(),
                     [&](const OtherKey& key) { return key.theirs.starts_with(fmt::format("{}.", name)); });
}

// "write chat_template (a name, ...)", or what to do instead.
std::string advice_of(const OtherKey& key) {
  if (key.ours.empty()) return key.how == "nothing" ? "remove it" : fmt::format("write {}", key.how);
  return fmt::format("write {}{}", key.ours, key.how.empty() ? "" : fmt::format(" ({})", key.how));
}

// The keys of a file of another trainer.
struct FileKeys {
  std::vector<std::string> renamed, dropped;  // "template as chat_template"; names

  // Keys of one pattern stand once.
  void add(const OtherKey& key, const std::string& path) {
    const std::string name = key.theirs.size() > 1 ? std::string(key.theirs) : path;
    std::vector<std::string>& names = key.ours.empty() ? dropped : renamed;
    std::string text = key.ours.empty() ? name : fmt::format("{} as {}", name, key.ours);
    if (std::find(names.begin(), names.end(), text) == names.end()) names.push_back(std::move(text));
  }
};

void look_at(const OtherTrainer& trainer, const YamlNode& map, const KeyPlace& place, FileKeys& found,
             Verdicts& verdicts) {
  for (const auto& entry : map.entries) {
    if (verdicts.is_full()) return;
    const KeyPlace here = place.at(entry);
    const OtherKey* key = find_other_key(trainer, here.path);
    if (entry.value.kind == YamlNode::Kind::kMap && (key == nullptr || key->theirs.ends_with('*')) &&
        holds_keys(trainer, here.path)) {
      look_at(trainer, entry.value, here, found, verdicts);
      continue;
    }
    const ConfigKey* ours = find_key(here.path);
    if (key == nullptr && ours != nullptr) {
      verdicts.add(here.path, ours->name, Verdict::kSupported, "is the same here");
      continue;
    }
    if (key != nullptr && key->ours != here.path) found.add(*key, here.path);
    verdicts.attempt(here.path, here.path, [&] {
      throw input_error(here.text(), "expected a key of axolotl or TRL, got one of {}; {}", trainer.name,
                        key == nullptr ? "remove it" : advice_of(*key));
    });
  }
}

constexpr std::string_view kPage = "docs/configs-you-have.md#files-of-other-trainers";

}  // namespace

const std::vector<OtherTrainer>& other_trainers() {
  static const YamlNode kTable = parse_yaml(kOtherTrainers, "other_trainers.yml");
  static const std::vector<OtherTrainer> kTrainers = [] {
    std::vector<OtherTrainer> trainers;
    for (const YamlNode::Entry& entry : kTable.entries) trainers.push_back(trainer_of(entry));
    return trainers;
  }();
  return kTrainers;
}

std::string recognise_trainer(const YamlNode& root, const KeyPlace& place, Verdicts& verdicts) {
  const auto& trainers = other_trainers();
  const auto trainer = std::find_if(trainers.begin(), trainers.end(), [&](const OtherTrainer& one) {
    return std::any_of(one.signs.begin(), one.signs.end(), [&](std::string_view sign) { return has_sign(root, sign); });
  });
  if (trainer == trainers.end()) return "";
  FileKeys found;
  look_at(*trainer, root, place, found, verdicts);
  return fmt::format("[{}] expected a config of axolotl or TRL, got one of {}; write {}{}{} ({})", place.file,
                     trainer->name,
                     found.renamed.empty() ? "another" : shown_line(fmt::format("{}", fmt::join(found.renamed, ", "))),
                     found.dropped.empty() ? "" : ", and leave out ",
                     shown_line(fmt::format("{}", fmt::join(found.dropped, ", "))), kPage);
}

void refuse_script(std::string_view text, std::string_view name) {
  const bool is_notebook =
      name.ends_with(".ipynb") || (text.starts_with('{') && text.find("\"nbformat\"") != text.npos);
  if (!is_notebook && !name.ends_with(".py")) return;
  constexpr std::string_view kUnsloth = "FastLanguageModel";
  const bool is_unsloth = text.find(kUnsloth) != text.npos;
  throw input_error(name, "expected a config, got a {} {}; write its arguments as keys of a YAML file ({})",
                    is_notebook ? "notebook" : "script", is_unsloth ? "of Unsloth" : "in Python", kPage);
}

}  // namespace spillway::config
