#include "cli/completion/shells.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

namespace spillway {
namespace {

// Returns the text with each `from` replaced by `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (size_t at; (at = text.find(from)) != std::string_view::npos; text.remove_prefix(at + from.size()))
    result.append(text.substr(0, at)).append(to);
  return result.append(text);
}

// Within single quotes of bash and zsh.
std::string single_quoted(std::string_view text) { return fmt::format("'{}'", replaced(text, "'", R"('\'')")); }

// A meaning in a specification of zsh's _arguments or _describe, where brackets and colons have meanings of their own.
std::string zsh_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_action(CompletedValue value) {
  switch (value) {
    case CompletedValue::kNothing:
      return "";
    case CompletedValue::kText:
      return " ";
    case CompletedValue::kFolder:
      return "_files -/";
    case CompletedValue::kFile:
      return "_files";
  }
  return "";
}

std::string fish_quoted(std::string_view text) {
  return fmt::format("'{}'", replaced(replaced(text, R"(\)", R"(\\)"), "'", R"(\')"));
}

// Returns how fish describes the value of an option or an argument.
std::string_view fish_value(CompletedValue value) {
  switch (value) {
    case CompletedValue::kNothing:
      return "";
    case CompletedValue::kText:
      return " -x";
    case CompletedValue::kFolder:
      return " -x -a '(__fish_complete_directories)'";
    case CompletedValue::kFile:
      return " -r -F";
  }
  return "";
}

// The branch of the function for one command: `options` is what may begin here, unless the word before wants a value.
std::string bash_branch(const CompletedCommand& command) {
  std::vector<std::string> names, folders, texts;
  for (const CompletedOption& option : command.options) {
    names.push_back(option.name);
    if (option.value == CompletedValue::kFolder) folders.push_back(option.name);
    if (option.value == CompletedValue::kText) texts.push_back(option.name);
  }
  std::string text = fmt::format("    {})\n      options='{}'{}\n", command.name, fmt::join(names, " "),
                                 command.takes_keys ? "\" $keys\"" : "");
  if (folders.size() + texts.size() == 0) return text + "      ;;\n";
  text += "      case $before in\n";
  if (!folders.empty())
    text += fmt::format(
        "        {})\n          compopt -o filenames\n          COMPREPLY=($(compgen -d -- \"$word\"))\n          "
        "return ;;\n",
        fmt::join(folders, " | "));
  if (!texts.empty())
    text += fmt::format("        {})\n          compopt +o default\n          return ;;\n", fmt::join(texts, " | "));
  return text + "      esac ;;\n";
}

}  // namespace

std::string bash_completion(const std::vector<CompletedCommand>& commands, const std::vector<CompletedKey>& keys) {
  std::vector<std::string> names, options;
  for (const CompletedCommand& command : commands) names.push_back(command.name);
  for (const CompletedKey& key : keys) options.push_back("--" + key.name);
  std::string text = fmt::format(
      "# Completion of spillway for bash; made by `spillway completion bash`.\n"
      "_spillway() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} options=\n"
      "  local keys='{}'\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '{} --help --version' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n",
      fmt::join(options, " "), fmt::join(names, " "));
  for (const CompletedCommand& command : commands) text += bash_branch(command);
  // Without an answer, `-o default` has readline complete files.
  return text +
         "  esac\n"
         "  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$word\")); fi\n"
         "}\n"
         "complete -o default -F _spillway spillway\n";
}

std::string zsh_completion(const std::vector<CompletedCommand>& commands, const std::vector<CompletedKey>& keys) {
  std::string text =
      "#compdef spillway\n"
      "# Completion of spillway for zsh; made by `spillway completion zsh`.\n"
      "_spillway() {\n"
      "  local -a commands=(\n";
  for (const CompletedCommand& command : commands)
    text += fmt::format("    {}\n", single_quoted(fmt::format("{}:{}", command.name, zsh_escaped(command.summary))));
  text += "  )\n  local -a keys=(\n";
  for (const CompletedKey& key : keys)
    text += fmt::format("    {}\n",
                        single_quoted(fmt::format("--{}[{}]:VALUE:_files", key.name, zsh_escaped(key.meaning))));
  text +=
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $command in\n";
  for (const CompletedCommand& command : commands) {
    text += fmt::format("    {})\n      _arguments", command.name);
    for (const CompletedOption& option : command.options) {
      std::string spec = fmt::format("{}[{}]", option.name, zsh_escaped(option.meaning));
      if (option.value != CompletedValue::kNothing)
        spec += fmt::format(":{}:{}", option.value_name, zsh_action(option.value));
      text += fmt::format(" \\\n        {}", single_quoted(spec));
    }
    if (command.takes_keys) text += " \\\n        \"$keys[@]\"";
    if (command.argument != CompletedValue::kNothing)
      text += fmt::format(" \\\n        '*:argument:{}'", zsh_action(command.argument));
    text += " ;;\n";
  }
  return text + "  esac\n}\n\n_spillway \"$@\"\n";
}

std::string fish_completion(const std::vector<CompletedCommand>& commands, const std::vector<CompletedKey>& keys) {
  std::string text =
      "# Completion of spillway for fish; made by `spillway completion fish`.\n"
      "complete -c spillway -f\n";
  std::vector<std::string> with_keys;
  for (const CompletedCommand& command : commands) {
    if (command.takes_keys) with_keys.push_back(command.name);
    text += fmt::format("complete -c spillway -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        fish_quoted(command.summary));
    const std::string head = fmt::format("complete -c spillway -n '__fish_seen_subcommand_from {}'", command.name);
    if (command.argument == CompletedValue::kFile || command.argument == CompletedValue::kFolder)
      text += fmt::format("{} -F\n", head);
    for (const CompletedOption& option : command.options)
      text += fmt::format("{} -l {}{} -d {}\n", head, option.name.substr(2), fish_value(option.value),
                          fish_quoted(option.meaning));
  }
  for (const CompletedKey& key : keys)
    text += fmt::format("complete -c spillway -n '__fish_seen_subcommand_from {}' -l {} -r -F -d {}\n",
                        fmt::join(with_keys, " "), key.name, fish_quoted(key.meaning));
  return text;
}

}  // namespace spillway
