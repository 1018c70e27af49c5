#include "cli/config_arguments.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backend/cpu/isa.h"
#include "base/error.h"
#include "base/home.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/completion/completed_command.h"
#include "cli/fetching.h"
#include "cli/help_page.h"
#include "cli/option_names.h"
#include "config/help.h"
#include "config/keys.h"
#include "job/model_folders.h"

namespace spillway {
namespace {

HelpPage help_page(const ConfigCommand& command) {
  std::vector<HelpRow> rows = {
      {"CONFIG.yml", fmt::format("the config, also --config FILE; - reads standard input; may be left out with "
                                 "--base_model{}{}",
                                 command.instead.empty() ? "" : " or ", command.instead)},
      {"--KEY VALUE",
       "sets a key of the config, also --KEY=VALUE; a nested key with dots; --KEY alone is true, "
       "--no_KEY false, and a list is several values"}};
  for (const CommandFlag& flag : command.flags) {
    rows.push_back({flag.value.empty() ? std::string(flag.name) : fmt::format("{} {}", flag.name, flag.value),
                    std::string(flag.meaning)});
  }
  rows.push_back({"--help-config", "lists the keys of a config; with --markdown as the page docs/config.md"});
  return {.usage = fmt::format("spillway {} CONFIG.yml [--KEY VALUE ...]{}", command.name,
                               command.flags.empty() ? "" : " [OPTION ...]"),
          .summary = std::string(command.summary),
          .sections = {{"", std::move(rows)}},
          .examples = {command.examples.begin(), command.examples.end()}};
}

// Walks the arguments once; a flag's or a key's value is behind `=` or in the next argument.
class ArgumentReader {
 public:
  ArgumentReader(const ConfigCommand& command, std::span<const std::string> args)
      : command_(command.name), flags_(command.flags), instead_(command.instead), args_(args) {}

  ConfigArguments read() {
    for (; at_ < args_.size(); ++at_) {
      const std::string& argument = args_[at_];
      if (argument.starts_with("--") && argument.size() > 2) {
        read_option(argument);
      } else {
        read_path(argument);
      }
    }
    const bool has_other = (!instead_.empty() && result_.has(instead_)) || names_model();
    if (result_.path.empty() && !has_other)
      fail("a config file", "nothing",
           fmt::format("name one, - for standard input, or give --base_model and other keys{}",
                       instead_.empty() ? "" : fmt::format(", or {}", instead_)));
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(std::string_view expected, std::string_view got, std::string_view advice) const {
    throw input_error(fmt::format("spillway {}", command_), "expected {}, got {}; {}", expected, got, advice);
  }

  // As TRL's and FastVideo's commands do, which need no file.
  [[nodiscard]] bool names_model() const {
    const config::ConfigKey* model = config::find_key("base_model");
    return std::any_of(result_.overrides.begin(), result_.overrides.end(),
                       [&](const config::ConfigOverride& one) { return config::find_key(as_key(one.key)) == model; });
  }

  static std::string as_key(std::string name) {
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
  }

  void read_path(const std::string& argument) {
    if (argument.empty()) fail("a config file", "an empty name", "name one, or - for standard input");
    if (argument.starts_with('-') && argument != "-") fail("--KEY VALUE", quote(argument), "write two dashes");
    if (!result_.path.empty()) {
      fail("one config file", fmt::format("{} and {}", quote(result_.path), quote(argument)), "remove one");
    }
    result_.path = argument;
  }

  void read_option(const std::string& argument) {
    const size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals);
    const auto flag = std::find_if(flags_.begin(), flags_.end(),
                                   [&](const CommandFlag& one) { return is_same_option(one.name, name); });
    if (flag != flags_.end()) name = flag->name;
    if (flag != flags_.end() && flag->value.empty()) {
      if (equals != std::string::npos) fail(name, quote(argument), "write it without a value");
      result_.flags.emplace(name, "");
      return;
    }
    std::string value;
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (has_word()) {
      value = args_[++at_];
    } else if (flag != flags_.end() || !read_switch(as_key(name.substr(2)))) {
      fail(fmt::format("a value after {}", name), "nothing", advice_for(name));
    } else {
      return;
    }
    if (name == "--config") return read_path(value);
    if (flag == flags_.end() && equals == std::string::npos) value = with_more_words(name, std::move(value));
    if (flag != flags_.end()) {
      result_.flags.insert_or_assign(name,
                                     is_path_name(flag->value) ? expand_home(std::move(value)) : std::move(value));
    } else {
      result_.overrides.push_back({name.substr(2), std::move(value)});
    }
  }

  [[nodiscard]] bool has_word() const { return at_ + 1 < args_.size() && !args_[at_ + 1].starts_with("--"); }

  // A key without a value; false for one that needs one.
  bool read_switch(const std::string& key) {
    const bool is_off = config::find_key(key) == nullptr && key.starts_with("no_");
    const std::string name = is_off ? key.substr(3) : key;
    if (!config::is_switch(name)) return false;
    result_.overrides.push_back({name, is_off ? "false" : "true"});
    return true;
  }

  // `--lora_target_modules q_proj v_proj`: a list, but for a config that follows it.
  std::string with_more_words(const std::string& name, std::string value) {
    if (value.starts_with('[') || !config::takes_words(as_key(name.substr(2)))) return value;
    std::vector<std::string> words = {value};
    while (has_word() && !is_config(args_[at_ + 1])) words.push_back(args_[++at_]);
    return words.size() == 1 ? value
                             : nlohmann::json(words).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  [[nodiscard]] bool is_config(const std::string& word) const {
    std::error_code error;
    return result_.path.empty() && (word == "-" || std::filesystem::is_regular_file(word, error));
  }

  // A flag that was misspelt looks like a key without a value.
  [[nodiscard]] std::string advice_for(const std::string& name) const {
    std::vector<std::string_view> names;
    for (const CommandFlag& flag : flags_) names.push_back(flag.name);
    const std::string_view near = nearest_name(name, names);
    if (!near.empty() && near != name && edit_distance(near, name) <= 2) return fmt::format("did you mean {}?", near);
    return fmt::format("write {} VALUE", name);
  }

  std::string_view command_;
  std::span<const CommandFlag> flags_;
  std::string_view instead_;
  std::span<const std::string> args_;
  size_t at_ = 0;
  ConfigArguments result_;
};

}  // namespace

std::optional<ConfigArguments> parse_config_arguments(const ConfigCommand& command, std::span<const std::string> args) {
  const auto is_given = [&](std::string_view flag) {
    return std::any_of(args.begin(), args.end(), [&](const std::string& one) { return is_same_option(one, flag); });
  };
  if (is_given("--help-config")) {
    fmt::print("{}", is_given("--markdown") ? config::config_markdown() : config::config_help());
    return {};
  }
  if (is_given("--help") || is_given("-h")) {
    show_help(help_page(command));
    return {};
  }
  return ArgumentReader(command, args).read();
}

void apply_isa_flag(const ConfigArguments& arguments) {
  if (arguments.has(kIsaFlag.name)) cpu::limit_isa(arguments.value(kIsaFlag.name));
}

config::LoadedConfig load_config(const ConfigArguments& arguments, config::ConfigUse use, HubNames names) {
  config::LoadedConfig loaded = config::load_config_file(arguments.path, arguments.overrides, use, arguments.ranks);
  const std::string model = loaded.config.model.base_model;
  const hub::Lookup lookup = names == HubNames::kFetched ? fetching_lookup() : hub::Lookup{};
  const bool reads_weights = use != config::ConfigUse::kPreprocess && names == HubNames::kFetched;
  train::use_model_folders(loaded.config, reads_weights ? hub::FolderUse::kModel : hub::FolderUse::kConfig, lookup);
  if (!loaded.config.model.revision.empty() && loaded.config.model.base_model == model)
    loaded.notes.emplace_back("revision_of_model is ignored: base_model is on this machine, and no name of the hub");
  train::fetch_data_sets(loaded.config, lookup);
  log_notes(loaded);
  return loaded;
}

void log_notes(const config::LoadedConfig& loaded) {
  if (const std::string line = config::ignored_line(loaded); !line.empty()) log_line(line);
  for (const std::string& note : loaded.notes) log_line(note);
}

}  // namespace spillway
