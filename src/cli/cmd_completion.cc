#include "cli/cmd_completion.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/completion/completed_command.h"
#include "cli/completion/shells.h"
#include "config/keys.h"

namespace spillway {
namespace {

std::vector<CompletedKey> config_keys() {
  std::vector<CompletedKey> keys;
  for (const config::KeySection& section : config::config_sections()) {
    for (const config::ConfigKey& key : section.keys) {
      // A name with `*` cannot be completed beyond the part before it, which is a key of its own or none.
      if (key.status == config::KeyStatus::kSupported && !key.name.ends_with('*'))
        keys.push_back({std::string(key.name), std::string(key.meaning)});
    }
  }
  return keys;
}

std::vector<CompletedCommand> completed_commands() {
  std::vector<CompletedCommand> all;
  for (const Command& command : commands())
    all.push_back(completed_command(std::string(command.name), std::string(command.summary), help_of(command)));
  return all;
}

}  // namespace

int cmd_completion(std::span<const std::string> args) {
  std::string shell;
  CommandLine line("spillway completion",
                   "Prints the script with which a shell completes commands, options and keys of a config.");
  line.required("SHELL", shell, "bash, zsh or fish");
  line.example("spillway completion bash > ~/.local/share/bash-completion/completions/spillway");
  line.example("spillway completion zsh > ~/.zfunc/_spillway");
  line.example("spillway completion fish > ~/.config/fish/completions/spillway.fish");
  if (!line.parse(args)) return kDone;
  const auto script = [&] {
    if (shell == "bash") return bash_completion;
    if (shell == "zsh") return zsh_completion;
    if (shell == "fish") return fish_completion;
    throw input_error("SHELL", "expected bash, zsh or fish, got {}; choose one of them", quote(shell));
  }();
  fmt::print("{}", script(completed_commands(), config_keys()));
  return kDone;
}

}  // namespace spillway
