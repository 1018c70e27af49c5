#include "config/foreign_section.h"

#include <algorithm>

#include "base/text.h"
#include "config/load.h"

namespace spillway::config {
namespace {

bool is_auto(const YamlNode& value) { return value.kind == YamlNode::Kind::kScalar && value.text == "auto"; }

// Returns true of a section whose `enabled` is off, or left to the trainer.
bool is_switched_off(const YamlNode& section) {
  const YamlNode* enabled = section.kind == YamlNode::Kind::kMap ? section.find("enabled") : nullptr;
  return enabled != nullptr && (is_off(*enabled) || is_auto(*enabled));
}

// Walks a section down to the keys of its table.
class Collector {
 public:
  Collector(const ForeignTable& table, Verdicts& verdicts) : table_(table), verdicts_(verdicts) {}

  void walk(const YamlNode& node, const KeyPlace& place, const std::string& prefix) {
    for (const auto& entry : node.entries) {
      if (verdicts_.is_full()) return;
      attempt(entry.value, place.at(entry), prefix + entry.key);
    }
    for (size_t i = 0; i < node.items.size() && !verdicts_.is_full(); ++i) {
      attempt(node.items[i], place.at(i), fmt::format("{}{}", prefix, i));
    }
  }

  std::vector<ForeignSetting> settings;

 private:
  void attempt(const YamlNode& value, const KeyPlace& place, const std::string& name) {
    const std::string key = fmt::format("{}.{}", table_.key, name);
    verdicts_.attempt(key, key, [&] { take(value, place, name); });
  }

  void take(const YamlNode& value, const KeyPlace& place, const std::string& name) {
    const auto is_it = [&](const ForeignKey& key) { return key.name == name; };
    const auto found = std::find_if(table_.keys.begin(), table_.keys.end(), is_it);
    if (found != table_.keys.end()) {
      if (!value.is_null() && !is_auto(value)) settings.push_back({&*found, place, value});
      return;
    }
    const auto is_below = [&](const ForeignKey& key) { return key.name.starts_with(name + "."); };
    if (std::none_of(table_.keys.begin(), table_.keys.end(), is_below)) fail_unknown(place, name);
    if (value.is_null() || is_auto(value)) return;
    if (value.kind == YamlNode::Kind::kScalar) {
      throw input_error(place.text(), "expected a section, got {}; write its keys below it", value.shown());
    }
    is_switched_off(value) ? pass_over(value, place, name) : walk(value, place, name + ".");
  }

  // Ignores all keys beside the switch.
  void pass_over(const YamlNode& section, const KeyPlace& place, const std::string& name) {
    for (const auto& entry : section.entries) {
      if (entry.key == "enabled") {
        attempt(entry.value, place.at(entry), name + ".enabled");
        continue;
      }
      const std::string key = fmt::format("{}.{}.{}", table_.key, name, entry.key);
      verdicts_.add(key, key, Verdict::kOff, "enabled is off");
    }
  }

  [[noreturn]] void fail_unknown(const KeyPlace& place, const std::string& name) const {
    std::vector<std::string_view> names;
    for (const ForeignKey& key : table_.keys) {
      for (size_t dot = key.name.find('.'); dot != std::string_view::npos; dot = key.name.find('.', dot + 1)) {
        names.push_back(key.name.substr(0, dot));
      }
      names.push_back(key.name);
    }
    const std::string_view near = nearest_name(name, names);
    throw input_error(place.text(), "expected a key of {}, got {}; {}", table_.program, quote(name),
                      near.empty() ? "remove it" : fmt::format("did you mean {}?", near));
  }

  const ForeignTable& table_;
  Verdicts& verdicts_;
};

bool asks_nothing(const YamlNode& value) {
  if (value.kind == YamlNode::Kind::kMap && value.find("enabled") != nullptr) return is_switched_off(value);
  return is_off(value) || number_of(value) == 0;
}

// The value in our words; nothing where it is what happens anyway.
std::optional<YamlNode> translated(const ForeignSetting& foreign) {
  const auto words = foreign.key->words;
  if (words.empty()) return foreign.value;
  const std::string text = foreign.value.kind == YamlNode::Kind::kScalar ? foreign.value.text : "";
  const auto meant = boolean_of(foreign.value);
  std::vector<std::string_view> names;
  for (const ForeignWord& word : words) {
    names.push_back(word.theirs);
    if (text != word.theirs && !(meant && meant == boolean_of(YamlNode::scalar(std::string(word.theirs))))) continue;
    if (word.ours.empty()) return {};
    return YamlNode::scalar(std::string(word.ours));
  }
  throw input_error(foreign.place.text(), "expected {}, got {}; write one of them, or remove the key",
                    joined_names(names), foreign.value.shown());
}

// Returns true if two values of a key mean the same: `true` and `host` of layer_offloading, 2 and 2.0.
bool same_meaning(const ConfigKey& key, const Setting& a, const Setting& b) {
  Spelled one, other;
  key.read(a.value, a.place, &one);
  key.read(b.value, b.place, &other);
  return key.print(&one) == key.print(&other);
}

}  // namespace

std::vector<ForeignSetting> collect_foreign(const ForeignTable& table, const YamlNode& section, const KeyPlace& place,
                                            Verdicts& verdicts) {
  if (section.is_null()) return {};
  if (section.kind != YamlNode::Kind::kMap) {
    throw input_error(place.path.empty() ? place.file : place.text(),
                      "expected a mapping of {}'s keys, got {}; write one", table.program, section.shown());
  }
  Collector collector(table, verdicts);
  collector.walk(section, place, "");
  return std::move(collector.settings);
}

const ForeignSetting* find_foreign(std::span<const ForeignSetting> foreign, std::string_view name) {
  const auto found =
      std::find_if(foreign.begin(), foreign.end(), [&](const ForeignSetting& one) { return one.key->name == name; });
  return found == foreign.end() ? nullptr : &*found;
}

void merge_foreign(const ForeignTable& table, std::span<const ForeignSetting> foreign, std::vector<Setting>& settings,
                   Verdicts& verdicts) {
  for (const ForeignSetting& one : foreign) {
    const std::string key = fmt::format("{}.{}", table.key, one.key->name);
    verdicts.attempt(key, key, [&] {
      switch (one.key->use) {
        case ForeignKey::Use::kBecomes:
          if (const auto value = translated(one); value && !one.key->text.empty()) {
            merge_setting(settings, {find_key(one.key->text), std::string(one.key->name), one.place, *value});
          }
          return verdicts.add(key, key, Verdict::kSupported,
                              one.key->text.empty() ? "" : fmt::format("is {}", one.key->text));
        case ForeignKey::Use::kIgnored:
          return verdicts.add(key, key, Verdict::kIgnored,
                              one.key->text.empty() ? "the plan places everything" : one.key->text);
        case ForeignKey::Use::kMustBeOff:
        case ForeignKey::Use::kRefused:
        case ForeignKey::Use::kNotYet: {
          if (asks_nothing(one.value)) return verdicts.add(key, key, Verdict::kOff, one.key->text);
          const std::string message = fmt::format(
              "[{}] expected {}'s {} to be off, got {}; {}{}", one.place.text(), table.program, one.key->name,
              one.value.shown(), one.key->text, one.key->use == ForeignKey::Use::kMustBeOff ? ": remove the key" : "");
          if (one.key->use == ForeignKey::Use::kNotYet) throw NotYetError(message);
          throw RefusedError(message);
        }
        case ForeignKey::Use::kSpecial:
          return verdicts.add(key, key, Verdict::kSupported,
                              one.key->text.empty() ? "" : fmt::format("is {}", one.key->text));
      }
    });
  }
}

int64_t ranks_of(std::span<const Setting> settings, const LoadedConfig& loaded) {
  int64_t ranks = 1;
  const Setting* said = find_setting(settings, "num_processes");
  if (said != nullptr) read_value(said->value, said->place, said->key->range, ranks);
  return loaded.source.ranks > 0 ? loaded.source.ranks : ranks;
}

int64_t groups_of_ranks(std::span<const Setting> settings, const LoadedConfig& loaded) {
  const int64_t ranks = ranks_of(settings, loaded);
  int64_t context = 1;
  const Setting* said = find_setting(settings, "context_parallel_size");
  if (said != nullptr) read_value(said->value, said->place, said->key->range, context);
  return ranks % context == 0 ? ranks / context : ranks;
}

void merge_setting(std::vector<Setting>& settings, Setting setting) {
  const auto same_key = [&](const Setting& other) { return other.key == setting.key; };
  const auto other = std::find_if(settings.begin(), settings.end(), same_key);
  if (other == settings.end()) {
    settings.push_back(std::move(setting));
  } else if (other->value.is_null() || (is_auto(other->value) && !is_auto(setting.value))) {
    *other = std::move(setting);
  } else if (other->place.line != 0 && !same_meaning(*setting.key, *other, setting)) {
    throw input_error(setting.place.text(),
                      "expected one value for {} and {}, which mean the same, got {} and {}; remove one",
                      other->spelled, setting.spelled, other->value.shown(), setting.value.shown());
  }
}

void follow_optimizer(std::vector<Setting>& settings, const KeyPlace& place) {
  const Setting* optimizer = find_setting(settings, "optimizer_offload");
  if (optimizer == nullptr || find_setting(settings, "gradient_offload")) return;
  merge_setting(settings, {find_key("gradient_offload"), optimizer->spelled, place, optimizer->value});
}

const Setting* find_setting(std::span<const Setting> settings, std::string_view key) {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const Setting& one) { return one.key->name == key && !one.value.is_null(); });
  return found == settings.end() ? nullptr : &*found;
}

}  // namespace spillway::config
