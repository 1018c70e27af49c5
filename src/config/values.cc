#include "config/values.h"
#include "config/yaml_scalar.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace spillway::config {
namespace {

constexpr Word<WeightType> kWeightTypes[] = {{"auto", WeightType::kAuto},
                                             {"float32", WeightType::kF32},
                                             {"bfloat16", WeightType::kBf16},
                                             {"float16", WeightType::kF16}};

constexpr Word<AutoBool> kAutoBools[] = {
    {"auto", AutoBool::kAuto}, {"true", AutoBool::kTrue}, {"false", AutoBool::kFalse}};

constexpr Word<Bf16> kBf16s[] = {
    {"auto", Bf16::kAuto}, {"true", Bf16::kTrue}, {"full", Bf16::kFull}, {"false", Bf16::kFalse}};

constexpr Word<IntervalStrategy> kStrategies[] = {
    {"no", IntervalStrategy::kNo}, {"steps", IntervalStrategy::kSteps}, {"epoch", IntervalStrategy::kEpoch}};
constexpr Word<HubStrategy> kHubStrategies[] = {{"end", HubStrategy::kEnd},
                                                {"every_save", HubStrategy::kEverySave},
                                                {"checkpoint", HubStrategy::kCheckpoint},
                                                {"all_checkpoints", HubStrategy::kAllCheckpoints}};
constexpr Word<SaveStrategy> kSaveStrategies[] = {{"no", SaveStrategy::kNo},
                                                  {"steps", SaveStrategy::kSteps},
                                                  {"epoch", SaveStrategy::kEpoch},
                                                  {"best", SaveStrategy::kBest}};

const YamlNode& scalar(const YamlNode& node, const KeyPlace& place, std::string_view expected) {
  if (node.kind != YamlNode::Kind::kScalar)
    throw input_error(place.text(), "expected {}, got {}; write one value", expected, node.shown());
  // No path, token or column can hold one, and what reads them would stop there.
  if (const size_t at = node.text.find('\0'); at != std::string::npos)
    throw input_error(place.text(), "expected {}, got a NUL character behind {}; remove it", expected,
                      quote(node.text.substr(0, at)));
  return node;
}

// One item of a list or mapping; its own empty value is a mistake, where a key's is a default.
std::string text_item(const YamlNode& node, const KeyPlace& place) {
  if (node.is_null()) throw input_error(place.text(), "expected text, got nothing; write a value or remove it");
  return scalar(node, place, "text").text;
}

// Names are what lists of texts hold: what YAML reads as a number or a truth value is none, as in axolotl.
std::string name_item(const YamlNode& node, const KeyPlace& place) {
  std::string text = text_item(node, place);
  if (!node.quoted && (number_of(node) || boolean_of(node)))
    throw input_error(place.text(), "expected text, got {} without quotes; write \"{}\" if it is a name", text, text);
  return text;
}

const std::vector<YamlNode::Entry>& map_entries(const YamlNode& node, const KeyPlace& place) {
  if (node.kind != YamlNode::Kind::kMap) {
    throw input_error(place.text(), "expected a mapping, got {}; write `name: value` lines below the key",
                      node.shown());
  }
  return node.entries;
}

// Returns "[a, b]" of the texts or numbers that `item` makes; empty for none.
template <typename T, typename Item>
std::string listed(const std::vector<T>& values, const Item& item) {
  if (values.empty()) return "";
  std::vector<std::string> items;
  for (const T& value : values) items.push_back(fmt::format("{}", item(value)));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

std::span<const Word<AutoBool>> words_of(AutoBool) { return kAutoBools; }
std::span<const Word<Bf16>> words_of(Bf16) { return kBf16s; }
std::span<const Word<WeightType>> words_of(WeightType) { return kWeightTypes; }
std::span<const Word<IntervalStrategy>> words_of(IntervalStrategy) { return kStrategies; }
std::span<const Word<SaveStrategy>> words_of(SaveStrategy) { return kSaveStrategies; }
std::span<const Word<HubStrategy>> words_of(HubStrategy) { return kHubStrategies; }

std::string KeyPlace::text() const {
  return line == 0 ? fmt::format("--{}", path) : fmt::format("{}:{}: {}", file, line, path);
}

KeyPlace KeyPlace::at(const YamlNode::Entry& entry) const {
  return {file, file.empty() ? 0 : entry.line, path.empty() ? entry.key : fmt::format("{}.{}", path, entry.key)};
}

KeyPlace KeyPlace::at(size_t index) const { return {file, line, fmt::format("{}.{}", path, index)}; }

bool Range::holds(double value) const { return value <= most && (above_least ? value > least : value >= least); }

std::string Range::text() const {
  std::string out;
  if (std::isfinite(least)) out = fmt::format(" {} {}", above_least ? "above" : "of at least", least);
  if (std::isfinite(most)) out += fmt::format("{} at most {}", out.empty() ? " of" : " and", most);
  return out;
}

std::optional<bool> boolean_of(const YamlNode& node) {
  constexpr std::string_view kTrue[] = {"true", "yes", "on", "1"};
  constexpr std::string_view kFalse[] = {"false", "no", "off", "0"};
  if (node.kind != YamlNode::Kind::kScalar) return {};
  const std::string text = lower_case(node.text);
  if (std::find(std::begin(kTrue), std::end(kTrue), text) != std::end(kTrue)) return true;
  if (std::find(std::begin(kFalse), std::end(kFalse), text) != std::end(kFalse)) return false;
  return {};
}

std::optional<double> number_of(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar) return {};
  std::string digits;
  for (size_t i = 0; i < node.text.size(); ++i) {
    const auto is_digit = [&](size_t at) {
      return at < node.text.size() && std::isdigit(static_cast<unsigned char>(node.text[at]));
    };
    if (node.text[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1)) continue;
    digits += node.text[i];
  }
  const size_t start = digits.starts_with('+') && !digits.starts_with("+-") ? 1 : 0;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data() + start, digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value)) return {};
  return value;
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, bool& value) {
  const auto read = boolean_of(node);
  if (!read) throw input_error(place.text(), "expected true or false, got {}; write one of them", node.shown());
  value = *read;
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, int64_t& value) {
  const auto read = number_of(node);
  constexpr double kLargest = 9007199254740992;  // 2^53: every integer up to here is itself
  if (!read || *read != std::floor(*read) || std::abs(*read) > kLargest || !range.holds(*read)) {
    throw input_error(place.text(), "expected an integer{}, got {}; change the value", range.text(), node.shown());
  }
  value = static_cast<int64_t>(*read);
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, StepsOrFalse& value) {
  if (boolean_of(node) == false) {
    value = {};
  } else {
    read_value(node, place, range, value.count);
  }
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, double& value) {
  const auto read = number_of(node);
  if (!read || !range.holds(*read)) {
    throw input_error(place.text(), "expected a number{}, got {}; change the value", range.text(), node.shown());
  }
  value = *read;
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, std::string& value) {
  value = scalar(node, place, "text").text;
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, DatasetType& value) {
  value = {.given = true};
  if (node.kind != YamlNode::Kind::kMap) {
    if (!node.is_null()) value.name = scalar(node, place, "the name of a type").text;
    return;
  }
  for (const auto& entry : node.entries) {
    const KeyPlace here = place.at(entry);
    const auto& known = data::kUserDefinedProperties;
    if (std::find(std::begin(known), std::end(known), entry.key) == std::end(known)) {
      const std::string_view near = nearest_name(entry.key, known);
      throw input_error(here.text(), "expected one of {}, got {}; {}", joined_names(known), quote(entry.key),
                        near.empty() ? "remove it" : fmt::format("did you mean {}?", near));
    }
    if (!entry.value.is_null()) value.properties[entry.key] = text_item(entry.value, here);
  }
  if (value.properties.empty())
    throw input_error(place.text(),
                      "expected a format or fields in the mapping, got none; write for example `format: "
                      "\"[INST] {{instruction}} [/INST]\"`");
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, std::vector<std::string>& value) {
  value.clear();
  if (node.kind == YamlNode::Kind::kScalar) {
    value.push_back(name_item(node, place));
    return;
  }
  if (node.kind == YamlNode::Kind::kMap) {
    throw input_error(place.text(), "expected a list, got a mapping; write `- value` lines or [a, b]");
  }
  for (size_t i = 0; i < node.items.size(); ++i) value.push_back(name_item(node.items[i], place.at(i)));
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, data::TemplateVariables& value) {
  (void)map_entries(node, place);
  value.json = json_of(node).dump();
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, ConfigOverrides& value) {
  if (map_entries(node, place).empty()) {
    value.json.clear();
    return;
  }
  // The order of keys makes no other model.
  value.json = nlohmann::json(json_of(node)).dump();
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, std::map<std::string, std::string>& value) {
  value.clear();
  for (const auto& entry : map_entries(node, place)) {
    value[entry.key] = text_item(entry.value, place.at(entry));
  }
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range,
                std::map<std::string, std::vector<std::string>>& value) {
  value.clear();
  for (const auto& entry : map_entries(node, place)) {
    read_value(entry.value, place.at(entry), range, value[entry.key]);
  }
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<int64_t>& value) {
  value.clear();
  if (node.kind != YamlNode::Kind::kList) return read_value(node, place, range, value.emplace_back());
  for (size_t i = 0; i < node.items.size(); ++i) read_value(node.items[i], place.at(i), range, value.emplace_back());
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<double>& value) {
  value.clear();
  if (node.kind != YamlNode::Kind::kList) return read_value(node, place, range, value.emplace_back());
  for (size_t i = 0; i < node.items.size(); ++i) read_value(node.items[i], place.at(i), range, value.emplace_back());
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, std::vector<PatternNumber>& value) {
  value.clear();
  for (const auto& entry : map_entries(node, place)) {
    PatternNumber& one = value.emplace_back(PatternNumber{.pattern = entry.key, .where = place.at(entry).text()});
    read_value(entry.value, place.at(entry), range, one.number);
  }
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, std::map<int64_t, std::string>& value) {
  value.clear();
  for (const auto& entry : map_entries(node, place)) {
    int64_t id = 0;
    read_value(YamlNode::scalar(entry.key), place.at(entry), {.least = 0, .most = INT32_MAX}, id);
    value[id] = text_item(entry.value, place.at(entry));
  }
}

void read_value(const YamlNode&, const KeyPlace&, const Range&, ForeignSection&) {}

std::string print_value(bool value) { return value ? "true" : "false"; }
std::string print_value(int64_t value) { return fmt::format("{}", value); }
std::string print_value(double value) { return fmt::format("{}", value); }
std::string print_value(const std::string& value) { return value; }
std::string print_value(const std::vector<std::string>& value) {
  return value.empty() ? "" : fmt::format("[{}]", fmt::join(value, ", "));
}
std::string print_value(const std::vector<int64_t>& value) {
  return listed(value, [](int64_t one) { return one; });
}
std::string print_value(const std::vector<double>& value) {
  return listed(value, [](double one) { return one; });
}
std::string print_value(const std::vector<PatternNumber>& value) {
  return listed(value, [](const PatternNumber& one) { return fmt::format("{}: {}", one.pattern, one.number); });
}
std::string print_value(const std::vector<LrGroup>& value) {
  return listed(
      value, [](const LrGroup& one) { return fmt::format("{} {}: {}", one.name, print_value(one.modules), one.lr); });
}
std::string print_value(const OptimArgs& value) {
  return listed(value.items, [](const OptimArg& one) { return fmt::format("{}: {}", one.name, one.value); });
}
std::string print_value(const SchedulerArgs& value) {
  return listed(value.items, [](const SchedulerArg& one) { return fmt::format("{}: {}", one.name, one.text); });
}

}  // namespace spillway::config
