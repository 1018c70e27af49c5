#include "config/help.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "config/keys.h"

namespace spillway::config {
namespace {

// Keys of one reason in one row: those that are ignored, refused or to come are many.
struct Group {
  KeyStatus status;
  std::string_view meaning;
  std::vector<std::string_view> names;
};

std::vector<Group> grouped(const KeySection& section) {
  std::vector<Group> groups;
  for (const ConfigKey& row : section.keys) {
    if (row.status == KeyStatus::kSupported) continue;
    const auto same = [&](const Group& group) { return group.status == row.status && group.meaning == row.meaning; };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(groups.end(), Group{row.status, row.meaning, {}});
    group->names.push_back(row.name);
    group->names.insert(group->names.end(), row.aliases.begin(), row.aliases.end());
  }
  return groups;
}

std::string_view title_of(KeyStatus status) {
  switch (status) {
    case KeyStatus::kSupported:
      return "Supported";
    case KeyStatus::kIgnored:
      return "Accepted and ignored";
    case KeyStatus::kNotYet:
      return "Not yet";
    case KeyStatus::kRefused:
      return "Refused";
  }
  return "";
}

std::string type_text(const ConfigKey& row) { return row.type->name() + row.range.text(); }

// Returns the default as text; empty for a key whose default is not a value that it takes.
std::string default_text(const ConfigKey& row, const void* defaults) {
  const std::string text = row.print(defaults);
  const auto number = number_of(YamlNode::scalar(text));
  return row.is_required || (number && !row.range.holds(*number)) ? "" : text;
}

// Calls `print` for each section, with a Spelled or a SpelledDataset that has the defaults.
template <typename Print>
std::string print_sections(const Print& print) {
  const Spelled keys;
  const SpelledDataset dataset;
  std::string out;
  for (const KeySection& section : config_sections()) {
    print(out, section, &keys);
    if (section.title == "Data") print(out, dataset_section(), &dataset);
  }
  return out;
}

void print_text(std::string& out, const KeySection& section, const void* defaults) {
  out += fmt::format("\n{}\n", section.title);
  for (const ConfigKey& row : section.keys) {
    if (row.status != KeyStatus::kSupported) continue;
    const std::string value = default_text(row, defaults);
    out += fmt::format("  {:<32} {}\n", row.name, row.meaning);
    out += fmt::format("  {:<32}   {}{}{}\n", "", type_text(row),
                       row.is_required ? "; required"
                       : value.empty() ? ""
                                       : "; default " + value,
                       row.aliases.empty() ? "" : fmt::format("; also {}", fmt::join(row.aliases, ", ")));
  }
  for (const Group& group : grouped(section)) {
    out += fmt::format("  {} ({}): {}\n", title_of(group.status), group.meaning, fmt::join(group.names, ", "));
  }
}

std::string code(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); }

void print_markdown(std::string& out, const KeySection& section, const void* defaults) {
  out += fmt::format("\n## {}\n", section.title);
  bool is_first = true;
  for (const ConfigKey& row : section.keys) {
    if (row.status != KeyStatus::kSupported) continue;
    if (is_first) out += "\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
    is_first = false;
    std::string names = code(row.name);
    for (const std::string& alias : row.aliases) names += ", " + code(alias);
    out += fmt::format("| {} | {} | {} | {} |\n", names, type_text(row),
                       row.is_required ? "required" : code(default_text(row, defaults)), row.meaning);
  }
  for (KeyStatus status : {KeyStatus::kIgnored, KeyStatus::kNotYet, KeyStatus::kRefused}) {
    bool first = true;
    for (const Group& group : grouped(section)) {
      if (group.status != status) continue;
      if (first) out += fmt::format("\n{}:\n\n", title_of(status));
      first = false;
      std::vector<std::string> names;
      for (const std::string_view name : group.names) names.push_back(code(name));
      out += fmt::format("- {}: {}\n", group.meaning, fmt::join(names, ", "));
    }
  }
}

constexpr std::string_view kIntroduction = R"(# The config

<!-- Made by `spillway train --help-config --markdown`; a test holds that it is up to date. -->

A config is one YAML mapping. The keys are axolotl's, with axolotl's meaning and defaults; TRL's names for the same
things are accepted and stand beside them here. A relative path is relative to the current directory, and `~`
at the beginning of one is the home folder. Every key can
be set on the command line, too, as `--KEY VALUE` or `--KEY=VALUE`: a nested key is written with dots
(`--datasets.0.path x.jsonl`), and `-` and `_` are the same.

A config that names its data as TRL's do (by `dataset_name`, or by `model_name_or_path` and `datasets` without a type)
has TRL's defaults where they differ: [configs you have](configs-you-have.md) lists them.

An unknown key is an error that names the nearest known one, and two names of a key that say different things are an
error that shows both; on the command line one wins over the file's other (`--eval_steps` over `evals_per_epoch`).
A key that is listed as not yet or refused is accepted as long as it is off. Ignored keys are
listed in one line when a run starts, with what is done instead; their values still have to be of the right kind. A `*`
stands for any rest of a name. `spillway plan CONFIG.yml --check-config`
shows what becomes of each key, and touches neither the model nor the data. [Configs you
have](configs-you-have.md) goes through five of them.
)";

}  // namespace

std::string config_help() {
  return "Keys of a config, axolotl's with its defaults; each can also be given as --KEY VALUE.\n" +
         print_sections(print_text);
}

std::string config_markdown() { return std::string(kIntroduction) + print_sections(print_markdown); }

}  // namespace spillway::config
