// Entries of trl.reward_funcs.
#include <algorithm>
#include <vector>

#include "config/values.h"
#include "rewards/builtin.h"

namespace spillway::config {
namespace {

using rewards::RewardEntry;

bool is_letter(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}

// Python's names with dots between them; the part behind the last is the function.
bool is_dotted_path(std::string_view text) {
  bool has_dot = false, begins = true;
  for (const char c : text) {
    if (c == '.' ? begins : begins ? !is_letter(c) : !is_letter(c) && (c < '0' || c > '9')) return false;
    begins = c == '.';
    has_dot |= begins;
  }
  return has_dot && !begins;
}

RewardEntry named_entry(const std::string& name, const KeyPlace& place) {
  RewardEntry entry{.name = name, .where = place.text()};
  if (rewards::find_builtin(name) != nullptr) return entry;
  if (is_dotted_path(name)) {
    entry.kind = RewardEntry::Kind::kPython;
    return entry;
  }
  if (name.find('/') != std::string::npos) {
    entry.kind = RewardEntry::Kind::kModel;
    entry.folder = name;
    return entry;
  }
  std::vector<std::string_view> names;
  for (const rewards::Builtin& one : rewards::builtins()) names.push_back(one.name);
  const std::string_view near = nearest_name(name, names);
  throw input_error(place.text(), "expected {}, module.function, ./FOLDER or {{exec: program}}, got {}; {}",
                    joined_names(names), quote(name),
                    near.empty() ? "write one of these" : fmt::format("did you mean {}?", near));
}

rewards::RewardArgument read_argument(const YamlNode::Entry& said, const KeyPlace& place) {
  rewards::RewardArgument argument{.name = said.key};
  if (said.value.kind == YamlNode::Kind::kList) {
    std::vector<std::string> texts;
    read_value(said.value, place, {}, texts);
    argument.value = std::move(texts);
  } else {
    double number = 0;
    read_value(said.value, place, {}, number);
    argument.value = number;
  }
  return argument;
}

RewardEntry program_entry(const YamlNode& node, const YamlNode& command, const KeyPlace& place) {
  RewardEntry entry{.kind = RewardEntry::Kind::kProgram, .where = place.text()};
  if (node.entries.size() > 1)
    throw input_error(place.text(), "expected exec alone, got other keys beside it; remove them");
  read_value(command, place, {}, entry.command);
  if (entry.command.empty() || entry.command.front().empty())
    throw input_error(place.text(), "expected a program behind exec, got none; write {{exec: [PROGRAM, ARGUMENT]}}");
  return entry;
}

RewardEntry read_entry(const YamlNode& node, const KeyPlace& place) {
  if (node.kind == YamlNode::Kind::kScalar) {
    std::string name;
    read_value(node, place, {}, name);
    return named_entry(name, place);
  }
  const YamlNode* exec = node.find("exec");
  if (exec != nullptr) return program_entry(node, *exec, place);
  const YamlNode* name = node.find("name");
  if (node.kind != YamlNode::Kind::kMap || name == nullptr)
    throw input_error(place.text(), "expected a function's name, {{name: ...}} or {{exec: ...}}, got {}; write one",
                      node.shown());
  std::string text;
  read_value(*name, place, {}, text);
  RewardEntry entry = named_entry(text, place);
  for (const YamlNode::Entry& said : node.entries) {
    if (said.key != "name") entry.arguments.push_back(read_argument(said, place.at(said)));
  }
  if (entry.kind != RewardEntry::Kind::kBuiltin && !entry.arguments.empty())
    throw input_error(place.text(), "expected arguments of a function that TRL brings, got some of {}; remove {}",
                      quote(entry.name), entry.arguments.front().name);
  return entry;
}

}  // namespace

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, std::vector<RewardEntry>& value) {
  value.clear();
  const bool is_list = node.kind == YamlNode::Kind::kList;
  const size_t count = is_list ? node.items.size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const KeyPlace here = is_list ? place.at(i) : place;
    value.push_back(read_entry(is_list ? node.items[i] : node, here));
    if (value.back().kind == RewardEntry::Kind::kBuiltin) rewards::check_arguments(value.back());
  }
}

}  // namespace spillway::config
